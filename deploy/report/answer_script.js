// The first screen of a report: the answer in one sentence with its evidence and reason, one picture, and one
// short table, which also explains the letters of the variants. All other sections are closed at first, and
// are drawn when the reader opens them.
const variants = report.variant || [];
const has = v => v && v.count > 0;
const number = (x, digits = 3) => Number(x).toLocaleString("en", {maximumSignificantDigits: digits});
// The text of a mean with its interval. A mean without an interval is rounded to `digits` significant digits;
// if `pad` is set, trailing zeros are kept.
function value(v, scale = 1, digits = 3, pad = false) {
  if (!has(v)) return "–";
  const padded = x => x.toLocaleString("en", {minimumSignificantDigits: digits, maximumSignificantDigits: digits});
  return withInterval(v, scale, x => pad && x ? padded(x) : number(x, digits));
}
// The name in pictures and tables: the variant's letters, which the short table explains.
const tag = v => v.label || v.short_name || v.name;
const meaning = v => v.short_name || v.name;
// The fields in which the job of `v` differs from the job of `base`, with their values. Fields that the name
// of the variant or a column of the table shows are left out.
function settingsOf(v, base) {
  const kShown = 3, own = variants.indexOf(v), others = variants.indexOf(base);
  const all = (report.difference || []).filter(d => !d.in_name && d.value[own] && d.value[own] !== d.value[others])
    .map(d => d.field.split(".").pop() + " " + d.value[own]).filter(text => !meaning(v).includes(text));
  return all.slice(0, kShown).concat(all.length > kShown ? [all.length - kShown + " more"] : []);
}
const chosen = v => Boolean(v.label) && v.label === report.choice;
// True for the recommended variant, and for every variant that is not shown to be slower.
const recommended = v => Boolean(v.label) && (report.tied || []).includes(v.label);
const tie = (report.tied || []).length > 1;
const colourOf = v => colour(variants.indexOf(v));
function chip(parent, v) {
  const node = add(parent, "span", v.label, "chip");
  node.style.background = colourOf(v);
  return node;
}

function table(node, header, rows) {
  const head = add(add(node, "thead"), "tr");
  header.forEach(text => add(head, "th", text));
  const body = add(node, "tbody");
  rows.forEach(row => { const line = add(body, "tr"); row.forEach(cell => add(line, "td", cell)); });
}

const tested = variants.some(v => has(v.test_accuracy));
const accuracyOf = v => tested ? v.test_accuracy : v.best_accuracy;
const accuracyName = tested ? "test accuracy" : "best validation accuracy";
const given = Boolean((report.target || {}).given);
// The time by which variants are ranked.
const ranked = v => given ? (v.to_target || {}).seconds : v.seconds;
const byRank = variants.filter(v => has(ranked(v))).sort((a, b) => (ranked(a).mean || 0) - (ranked(b).mean || 0));
const bySpeed = variants.filter(v => has(v.seconds)).sort((a, b) => (a.seconds.mean || 0) - (b.seconds.mean || 0));

// The ends of an axis. They include all values. Beyond the values, an interval extends the axis by at most
// the range of the values, because the interval of a few runs may be many times as wide.
function ends(values, intervals, logarithmic) {
  const low = Math.min(...values), high = Math.max(...values), room = high - low || high * .05 || 1;
  let least = Math.min(low, ...intervals.map(v => Math.max(v[0], low - room)));
  let most = Math.max(high, ...intervals.map(v => Math.min(v[1], high + room)));
  if (logarithmic) return [Math.max(least, low / 3) / 1.15, most * 1.15];
  const margin = (most - least) * .06 || room;
  return [least - margin, most + margin];
}

// Calls draw(context), and clips the drawing to the area inside the chart's axes.
function within(chart, draw) {
  const c = chart.ctx, area = chart.chartArea;
  c.save();
  c.beginPath();
  c.rect(area.left, area.top, area.right - area.left, area.bottom - area.top);
  c.clip();
  draw(c);
  c.restore();
}
// Draws the 95 % intervals; the points are drawn on top of them.
function drawIntervals(chart) {
  const points = chart.data.datasets[1].data, area = chart.chartArea, {x, y} = chart.scales;
  within(chart, c => points.forEach(p => {
    const px = x.getPixelForValue(p.x), py = y.getPixelForValue(p.y);
    c.strokeStyle = colourOf(p.variant);
    c.globalAlpha = points.length > 8 ? .5 : 1;
    c.lineWidth = 2;
    c.beginPath();
    if (p.xs) {
      c.moveTo(p.xs[0] > x.min ? x.getPixelForValue(p.xs[0]) : area.left, py);
      c.lineTo(x.getPixelForValue(p.xs[1]), py);
    }
    if (p.ys) {
      c.moveTo(px, y.getPixelForValue(p.ys[0]));
      c.lineTo(px, y.getPixelForValue(p.ys[1]));
    }
    c.stroke();
  }));
}
// Places a letter of the given width (pixels) beside the point (px, py), where it overlaps `boxes` least.
function placeLetter(px, py, width, boxes, area) {
  const common = (a, b) => Math.max(0, Math.min(a[0] + a[2], b[0] + b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[1] + a[3], b[1] + b[3]) - Math.max(a[1], b[1]));
  let best, least = Infinity;
  [12, 24, 36].forEach(far => [[1, -1], [-1, -1], [1, 1], [-1, 1], [0, -1], [0, 1], [1, 0], [-1, 0]].forEach(([right, down]) => {
    const box = [px + right * (far - 6 + width / 2) - width / 2, py + down * far - 8, width, 16];
    const outside = box[0] < area.left || box[0] + width > area.right || box[1] < area.top || box[1] + 16 > area.bottom;
    const covered = boxes.reduce((sum, other) => sum + common(box, other), 0) + (outside ? 1e4 : 0) + far / 10;
    if (covered < least) [best, least] = [box, covered];
  }));
  return best;
}
function drawLetters(chart) {
  const points = chart.data.datasets[1].data, {x, y} = chart.scales;
  const boxes = points.map(p => [x.getPixelForValue(p.x) - 6, y.getPixelForValue(p.y) - 6, 12, 12]);
  within(chart, c => {
    c.font = "bold 13px system-ui, sans-serif";
    c.textAlign = "center";
    c.textBaseline = "middle";
    points.forEach(p => {
      const text = tag(p.variant), width = c.measureText(text).width + 4;
      const px = x.getPixelForValue(p.x), py = y.getPixelForValue(p.y);
      const box = placeLetter(px, py, width, boxes, chart.chartArea);
      boxes.push(box);
      const left = box[0] + width / 2, top = box[1] + 8;
      if (Math.hypot(left - px, top - py) > 24) {  // A line leads from the point to its letter.
        c.lineWidth = 1;
        c.strokeStyle = colourOf(p.variant);
        c.beginPath();
        c.moveTo(px, py);
        c.lineTo(left, top);
        c.stroke();
      }
      c.lineWidth = 4;
      c.strokeStyle = paper;
      c.strokeText(text, left, top);
      c.fillStyle = ink;
      c.fillText(text, left, top);
    });
  });
}
const intervalsAndLetters = {id: "intervalsAndLetters", beforeDatasetsDraw: drawIntervals, afterDatasetsDraw: drawLetters};

// The ends of a mean's interval; undefined: the mean has no interval.
const interval = (v, scale = 1) => hasInterval(v) ? [v.low * scale, v.high * scale] : undefined;
// Draws training time against accuracy. Returns false if no variant has both.
function timeAgainstAccuracy(parent) {
  const points = bySpeed.filter(v => has(accuracyOf(v))).map(v => ({variant: v, x: v.seconds.mean || 0, xs: interval(v.seconds),
    y: 100 * (accuracyOf(v).mean || 0), ys: interval(accuracyOf(v), 100)})).filter(p => p.x > 0);
  if (!points.length) return false;
  const runs = !tested ? [] : points.flatMap(({variant: v}) => (v.runs || 0) < 2 ? [] : v.run.filter(r => r.status === "succeeded" && r.test_accuracy !== undefined)
    .map(r => ({variant: v, run: r, x: r.seconds || 0, y: 100 * r.test_accuracy})));
  const all = points.concat(runs), times = all.map(p => p.x);
  const logarithmic = Math.max(...times) > 8 * Math.min(...times);
  const [left, right] = ends(times, points.map(p => p.xs).filter(Boolean), logarithmic);
  const [bottom, top] = ends(all.map(p => p.y), points.map(p => p.ys).filter(Boolean), false);
  const intervals = points.some(p => p.xs), most = Math.max(...variants.map(v => v.runs || 0));
  figure(parent, "Training time against " + accuracyName + ": the upper left corner is best. " +
    (intervals ? "Bars: where each mean lies, with 95 % confidence. Faint dots: single runs." : most > 1 ? "Faint dots: single runs, too few for an interval." : "One run of each variant, so no interval is known."), {type: "scatter",
    data: {datasets: [
      {data: runs, pointRadius: 2.5, backgroundColor: runs.map(p => colourOf(p.variant) + "66"), borderWidth: 0},
      {data: points, pointRadius: points.map(p => recommended(p.variant) ? 7 : 5), backgroundColor: points.map(p => colourOf(p.variant)),
        borderColor: ink, borderWidth: points.map(p => recommended(p.variant) ? 2 : 0)}]},
    options: {layout: {padding: {right: 8}}, scales: {
        x: axis("training time, s" + (logarithmic ? " (logarithmic)" : ""), {type: logarithmic ? "logarithmic" : "linear", min: left > 0 || logarithmic ? left : 0, max: right,
          ticks: {callback: t => number(t), maxRotation: 0, maxTicksLimit: 8, includeBounds: false}}),
        y: axis(accuracyName + ", %", {min: Math.max(0, bottom), max: Math.min(100, top), ticks: {callback: t => number(t, 4), includeBounds: false}})},
      plugins: {legend: {display: false}, tooltip: {callbacks: {label: ({raw: p}) => [tag(p.variant) + ": " + p.variant.name,
        p.run ? p.run.name + ": " + number(p.x) + " s, " + number(p.y, 4) + " %" : value(p.variant.seconds) + " s, " + value(accuracyOf(p.variant), 100, 4) + " %"]}}}},
    plugins: [intervalsAndLetters]}, 340);
  return true;
}

// The text of the time to the target. If not all runs reached the target, also the number of runs that did.
function toTarget(t) {
  const all = !t.runs || t.reached === t.runs;
  return value(t.seconds, 1, 3, true) + (all ? "" : ", " + (t.reached || 0) + " of " + t.runs + " runs");
}
// The table of variants in the order of their times: the meaning of each letter, and the results. Rows that
// do not fit on a screen are in a closed section.
function shortTable(parent) {
  const kShown = 8;
  const base = byRank.find(chosen) || byRank[0] || bySpeed[0] || variants[0], ratio = byRank.length > 1 && ranked(base).mean > 0;
  const rows = byRank.concat(variants.filter(v => !byRank.includes(v)));
  const shown = rows.filter((v, i) => i < kShown || chosen(v));
  const others = rows.filter(v => !shown.includes(v));
  const runs = new Set(variants.map(v => v.failed ? "" : v.runs)), alike = runs.size === 1 && !runs.has("");
  // True if the global batch does not determine a worker's batch.
  const shares = new Set(variants.map(v => v.workers)).size > 1;
  const share = v => shares ? (v.batch_per_worker || 0) + " a worker" : "";
  const columns = [["global batch", v => v.global_batch || 0, "more", share],
    ...(given ? [["time to\u00a0" + number(100 * report.target.accuracy) + "\u00a0%,\u00a0s", v => toTarget(v.to_target || {})]] : []),
    ["training,\u00a0s", v => value(v.seconds, 1, 3, true), given ? "more" : undefined],
    ...(ratio ? [["time, " + tag(base) + "\u00a0=\u00a01", v => has(ranked(v)) ? ((ranked(v).mean || 0) / ranked(base).mean).toFixed(2) : "–", "more", v => v === base || !has(ranked(v)) || v.shown_apart ? "" : "not shown"]] : []),
    [(tested ? "test" : "validation") + " accuracy,\u00a0%", v => value(accuracyOf(v), 100, 4, true)],
    ...(alike ? [] : [["runs", v => (v.runs || 0) + (v.failed ? " + " + v.failed + " failed" : ""), "more"]])];
  const draw = (node, some) => {
    const head = add(add(node, "thead"), "tr");
    add(head, "th", rows.length > 1 ? "variant, by " + (given ? "time to " + number(100 * report.target.accuracy) + "\u00a0%" : "training time") : "variant");
    columns.forEach(([title, , cls]) => add(head, "th", title, cls));
    const body = add(node, "tbody");
    some.forEach(v => {
      const line = add(body, "tr", undefined, !tie && recommended(v) ? "chosen" : undefined);
      const cell = add(line, "td"), name = add(cell, "div", undefined, "name");
      if (v.label) chip(name, v);
      const text = add(name, "div", meaning(v));
      const batch = meaning(v).includes("batch " + v.global_batch) ? [] : ["global batch " + (v.global_batch || 0)];
      const less = [...batch, ...(shares ? [share(v)] : [])].join(", ");
      if (less) add(text, "div", less, "soft less");
      if (recommended(v)) add(text, "div", tie ? "may be the best" : "recommended" + (v === byRank[0] ? "" : " for accuracy"), "soft mark");
      const remarks = settingsOf(v, base).join(", ");
      if (remarks) add(text, "div", remarks, "soft");
      cell.title = v.name;
      columns.forEach(([, pick, cls, below]) => {
        const cell = add(line, "td", pick(v), cls);
        if (below && below(v)) add(cell, "div", below(v), "soft");
      });
    });
  };
  draw(add(add(parent, "div", undefined, "wide"), "table", undefined, "short"), shown);
  if (others.length) {
    const more = add(parent, "details");
    add(more, "summary", others.length + (others.length === 1 ? " other variant" : " other variants"));
    draw(add(add(more, "div", undefined, "wide"), "table", undefined, "short"), others);
  }
  add(parent, "p", [variants.some(v => hasInterval(v.seconds)) ? intervalNote : "",
    alike ? ([...runs][0] === 1 ? "One run" : [...runs][0] + " runs") + " of each variant." : "",
    tie ? "Variants that may be the best are not shown to be slower than " + tag(base) + "." : "",
    ratio && byRank.some(v => v !== base && !v.shown_apart) ? "Where the table says \"not shown\", the quotient of times may differ from 1 by chance." : "", ...(report.strategy_note || []), ...(report.setup || [])].join(" "), "soft");
}

// The results of one variant.
function facts(parent, v) {
  const t = v.to_target || {}, rows = [
    ["training time", value(v.seconds), "s"], [accuracyName, value(accuracyOf(v), 100, 4), "%"],
    ["throughput", value(v.samples_per_second, 1, 4), "samples/s"],
    [given ? "time to " + number(100 * report.target.accuracy) + " % validation accuracy" : "", value(t.seconds), "s"],
    [v.exchanges ? "waiting for the exchange" : "", value(v.exposed_share, 100), "% of a step"], ["cost of the run", value(v.cost), costUnit]];
  const body = add(add(add(parent, "div", undefined, "wide"), "table", undefined, "short"), "tbody");
  rows.filter(([name, text]) => name && text !== "–").forEach(([name, text, unit]) => {
    const line = add(body, "tr");
    add(line, "td", name);
    add(line, "td", text + (unit ? " " + unit : ""));
  });
  add(parent, "p", [v.name[0].toUpperCase() + v.name.slice(1) + ".", ...(report.setup || [])].join(" "), "soft");
}

// A closed section. `draw` fills the section when it is first opened, because a closed section has no width
// for plots.
function fold(title, explanation, draw) {
  const node = add(document.getElementById("sections"), "details", undefined, "fold");
  add(node, "summary", title);
  if (explanation) add(node, "p", explanation, "soft");
  let drawn = false;
  node.addEventListener("toggle", () => {
    if (drawn || !node.open) return;
    drawn = true;
    draw(node);
  });
}
const openAll = () => document.querySelectorAll("details").forEach(node => { node.open = true; });
// report.html#all opens all sections, and so does printing.
addEventListener("beforeprint", openAll);
addEventListener("load", () => { if (location.hash === "#all") openAll(); });

function answer() {
  document.title = report.title + " – Tethys";
  document.getElementById("title").textContent = report.title;
  document.getElementById("made").textContent = report.made;
  const verdict = document.getElementById("verdict"), cautions = (report.caution || []).join("; ");
  say(verdict, (report.verdict || [""])[0]);
  const line = (title, text, cls) => {
    if (!text) return;
    const node = say(verdict, text, cls);
    node.prepend(" ");
    const name = document.createElement("b");
    name.textContent = title;
    node.prepend(name);
  };
  const end = variants.length === 1 && variants[0].summary || {};
  if (end.status && end.status !== "succeeded") verdict.classList.add(end.status);
  line("To continue:", end.status !== "succeeded" && end.go_on);
  line("How sure:", report.how_sure);
  line("Why:", report.reason);
  line("Keep in mind:", cautions && cautions + ".", "soft");
  const picture = document.getElementById("picture"), numbers = document.getElementById("numbers");
  if (variants.length > 1) {
    if (!timeAgainstAccuracy(picture)) bars(picture, "Training time", "seconds", v => v.seconds);
    shortTable(numbers);
  } else if (variants.length) {
    if ((variants[0].epoch || []).some(e => e.validation_accuracy !== undefined)) accuracyOverTime(picture);
    else lossOverTime(picture);
    facts(numbers, variants[0]);
  }
}
