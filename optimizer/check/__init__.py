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

Of a fleet's answer (only with an import of its own: it knows what a fleet is, and the answer for one layout does not):

fleet           all of its checks: check_fleet
fleet_audit     what they look at, and what keeps a plan from being looked at
fleet_traffic   classes, and that all of their traffic is served
fleet_pools     replicas: what each carries, within which targets
fleet_mix       speed and memory of a pool at its own mix of classes
fleet_nodes     replicas placed on nodes; nodes switched on and off
fleet_limits    stock, quotas, budget, kinds, providers, spot
fleet_survive   each node or provider taken away
fleet_money     prices, commitments, starts, totals
fleet_status    status, and what the answer compares itself with
"""

from optimizer.check.audit import Violation, by_rule
from optimizer.check.checks import CHECKS, check_layout
from optimizer.check.plan import check_plan

__all__ = ["CHECKS", "Violation", "by_rule", "check_layout", "check_plan"]
