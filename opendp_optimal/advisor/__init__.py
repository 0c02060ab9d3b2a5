"""Which mechanism should I use? Every one that applies, with its expected loss, ranked."""

from opendp_optimal.advisor.advice import Advice, advise
from opendp_optimal.advisor.request import Bound, Candidate, Noise, Proposal, Remark, Request

__all__ = ["Advice", "Bound", "Candidate", "Noise", "Proposal", "Remark", "Request", "advise"]
