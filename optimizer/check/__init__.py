"""The auditor: recomputes every rule and the cost of an answer from question and plan.

It shares nothing with the programs, the table of candidates or the rules that the programs work on.

audit       what an audit looks at, and a Violation
floors      least bytes per GPU that a split can need, from first principles
predict     latency and load of all layouts of an answer, in one pass of the speed model
layout      rules on the split and its node
speed       rules on latency and traffic
offer       rules on what is rented
numbers     whole nodes, cost, and every figure that the answer prints
plan        the answer as a whole: status, bound, alternatives
"""

from optimizer.check.audit import Violation
from optimizer.check.checks import CHECKS, check_layout
from optimizer.check.plan import check_plan

__all__ = ["CHECKS", "Violation", "check_layout", "check_plan"]
