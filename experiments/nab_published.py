"""Raw scores that the NAB repository holds for the series of known cause, standard profile.

From results/NAME/NAME_standard_scores.csv of github.com/numenta/NAB. The totals over all 58
series in the same files give NAB's published scores (numenta 70.1, contextOSE 69.9, knncad 58.0,
relativeEntropy 54.6, windowedGaussian 39.6, expose 16.4).
"""

from __future__ import annotations

SERIES = (
    "ambient_temperature_system_failure", "cpu_utilization_asg_misconfiguration",
    "ec2_request_latency_system_failure", "machine_temperature_system_failure", "nyc_taxi",
    "rogue_agent_key_hold", "rogue_agent_key_updown",
)  # fmt: skip
_RAW = {
    "numenta": (-0.758599859273, -0.255718003788, 1.70586905384, 1.36013273774, 2.43572773247,
                -1.11370102385, -1.29575982814),
    "contextOSE": (-0.428599859273, -0.192966801603, 1.99064449099, 1.63827759294, -1.42976791841,
                   -0.959262194153, -2.22),
    "knncad": (-0.767605295228, -1.106006045822, 1.925869053843, -2.856411210774, 0.265091167011,
               0.300500023355, 0.430003745297),
    "relativeEntropy": (-1.39979253026, 0.424230234496, 2.03586905384, -0.916101489945,
                        3.83335967699, -1.51582076131, -2.48766861129),
    "windowedGaussian": (-2.0, -1.11, 2.02150685678, -4.0, -5.0, -2.44, -1.3964908955),
    "expose": (-2.0, -1.99551325909, 0.726442074331, -3.10731481414, -5.0, -2.0, -0.48368768156),
}  # fmt: skip
PUBLISHED = {name: dict(zip(SERIES, raw, strict=True)) for name, raw in _RAW.items()}
