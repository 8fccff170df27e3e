"""Raw scores that the NAB repository holds, standard profile: the series of known cause, and those
of ad exchanges and made by hand.

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

MORE_SERIES = (
    "art_daily_no_noise", "art_daily_perfect_square_wave", "art_daily_small_noise", "art_flatline",
    "art_noisy", "art_daily_flatmiddle", "art_daily_jumpsdown", "art_daily_jumpsup",
    "art_daily_nojump", "art_increase_spike_density", "art_load_balancer_spikes",
    "exchange-2_cpc_results", "exchange-2_cpm_results", "exchange-3_cpc_results",
    "exchange-3_cpm_results", "exchange-4_cpc_results", "exchange-4_cpm_results",
)  # fmt: skip
_MORE_RAW = {
    "numenta": (-0.22, 0.0, -0.22, 0.0, 0.0, 0.499996314723, 0.748908670438, 0.86067182427,
                -1.27835146592, 0.86067182427, 0.734788146524, 0.53195803375, 1.50824342415,
                2.72249645115, 0.752161591569, 0.512259966677, 1.49471036268),
    "contextOSE": (0.0, -0.11, -0.33, 0.0, 0.0, 0.795472168219, 0.658548632405, 0.86067182427,
                   -1.33, 0.86241650019, 0.490378699165, 0.890719864077, -0.463742482153,
                   2.48872770811, 0.862098587352, 0.51228290525, 1.60471036268),
    "knncad": (-0.11, 0.0, -0.44, 0.0, -0.22, 0.618072536859, -1.439445001617, 0.64067182427,
               -1.329445187706, 0.532827639798, 0.408227179838, 0.536205611502, 1.424416151092,
               2.363594084213, 0.203160256912, 0.250368532737, 1.106943492653),
    "relativeEntropy": (0.0, 0.0, -0.55, 0.0, -0.22, 0.885996850433, 0.601686647012, 0.86067182427,
                        -1.33, -1.0, 0.779398691694, -0.525094509197, -2.4018765947,
                        0.499295454037, 0.752128157778, 0.224515692114, -2.24176321244),
    "expose": (0.0, 0.0, 0.0, 0.0, 0.0, 0.47616066436, 0.790642452485, 0.784011103458,
               -1.21319130132, -1.0, -1.0, -1.0, -2.0, -3.0, -1.0, -3.0, -0.373526424877),
}  # fmt: skip
MORE_PUBLISHED = {name: dict(zip(MORE_SERIES, raw, strict=True)) for name, raw in _MORE_RAW.items()}
"""Of the detectors above; the windowed Gaussian's there are of an older release."""
