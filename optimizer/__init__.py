"""From a question to an answer: the cheapest feasible GPU layout for a language model."""
