"""The frame of the demonstration's report: HTML with nothing to load."""

from string import Template

# The policy makes the browser itself see to it that nothing is fetched.
TEMPLATE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:;
font-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>onkel: the demonstration</title>
<link rel="icon" href="data:,">
<style>$style</style>
$library
</head>
<body>
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
<p>A fault counts as found if at most $chance of all fault-free stretches of the same length hold
as many alerts; that share stands beside the verdict.</p>
<div class="scroll"><table class="each">
<thead><tr><th>day</th><th>kind</th><th>sensor</th><th>rows</th><th>alerts</th>
<th>stretches with as many</th><th>verdict</th></tr></thead>
<tbody>
$faults
</tbody></table></div>
</section>
<footer>$footer</footer>
</main>
$script
</body>
</html>
""")
