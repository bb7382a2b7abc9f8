"""What can be wrong with a question.

QuestionError           the scenario, a flag or a file of the user's is not usable; exit code 2
`-- ScenarioError       a scenario file or its fields; names each field, its value and what would be accepted
AuditError              an answer did not pass its own check, and is not shown; a fault of ours, exit code 1
"""

from __future__ import annotations

from collections.abc import Sequence


class QuestionError(ValueError):
    """Something the user gave is wrong; the message says what, where, and what would be accepted."""


class ScenarioError(QuestionError):
    """Fields of a scenario are wrong; carries every problem found, not only the first."""

    def __init__(self, where: str, problems: Sequence[str]):
        self.where = where
        self.problems = tuple(problems)
        shown = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"{where}:\n{shown}")


class AuditError(RuntimeError):
    """The checker found a rule broken in an answer that the solver gave."""

    def __init__(self, violations: Sequence[object]):
        self.violations = tuple(violations)
        shown = "\n".join(f"  - {violation}" for violation in self.violations)
        super().__init__(f"the answer did not pass its audit and is not shown; please report this question:\n{shown}")
