"""The frame of the demonstration's report: HTML with nothing to load."""

from string import Template

from onkel.app.report.style import opening

TEMPLATE = Template(
    opening("onkel: the demonstration")
    + """<body>
<main>
<p class="kicker">onkel: online learning with kernels</p>
<h1>A plant that drifts, and two models that keep up</h1>
<p>$lead</p>
<div class="tiles">
$tiles
</div>
<section id="summary">
<h2>Summary</h2>
<div class="scroll"><table class="summary"><tbody>
$table
</tbody></table></div>
</section>
$sections
<section id="faults">
<h2>The faults, one by one</h2>
<p>A fault counts as found if at most $chance of all stretches of the same length without a fault
or a fresh change hold as many alerts; that share stands beside the verdict.</p>
<div class="scroll"><table class="each">
<thead><tr><th>day</th><th>kind</th><th>sensor</th><th>rows</th><th>alerts</th>
<th>rarest reading</th><th>stretches with as many</th><th>verdict</th></tr></thead>
<tbody>
$faults
</tbody></table></div>
</section>
<footer>$footer</footer>
</main>
$script
</body>
</html>
"""
)
