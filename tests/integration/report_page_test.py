#!/usr/bin/env python3
"""Tests of the HTML reports in a browser: their scripts run without an error and draw what a reader is to see. Needs
Chromium; a skipped test says so. The pages are opened as files, so nothing that they need may come from a network."""
import functools
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import unittest

from tethys_run import PATIENCE, command
from live_view import View

BROWSER = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
RECOMMENDED = re.compile(">recommended(?: for accuracy)?<")
JOB = """
name: "job"
model {
  layer { flatten {} }
  layer { dense { units: 16 activation: RELU } }
  layer { dense { units: 10 } }
}
data { synthetic { noise { shape: [ 8, 8, 1 ] } train_samples: 400 } validation_samples: 100 classes: 10 }
optimizer { sgd { momentum: 0.9 } learning_rate: 0.1 }
global_batch_size: 16
epochs: 2
"""
STUDY = """
job: "job.textproto"
set: "epochs=1"
factor {
  name: "batch"
  level { label: "64" set: "global_batch_size=64" }
  level { label: "128" set: "global_batch_size=128" }
}
repeats: 2
"""


def run_verb(verb, *arguments):
    plain = [] if verb == "report" else ["--plain"]
    status, output = command([verb, *arguments, *plain])
    if status != 0:
        raise AssertionError(output)


def compare(job, folder, *flags):
    run_verb("compare", job, f"--run_dir={folder}", "--strategies=local,mirrored,ps_async", "--workers=2",
             "--max_others_cpu=100", *flags)


@functools.cache
def finished_comparison():
    """The folder of a comparison of two runs of each variant, which tests share."""
    folder = tempfile.TemporaryDirectory(prefix="tethys-page-")
    unittest.addModuleCleanup(folder.cleanup)
    with open(os.path.join(folder.name, "job.textproto"), "w", encoding="utf-8") as file:
        file.write(JOB)
    compare(file.name, f"{folder.name}/runs", "--repeats=2")
    return f"{folder.name}/runs"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@unittest.skipUnless(BROWSER, "no Chromium is installed, so the scripts of the pages are not run")
class ReportPageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tethys-page-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.job = self.write("job.textproto", JOB)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
        return os.path.join(self.folder, name)

    def opened(self, page, sections=""):
        """The elements of a page after its scripts have run. Fails if a script wrote to the console, as errors do."""
        result = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
             "--virtual-time-budget=5000", f"--user-data-dir={self.folder}/profile", "--dump-dom",
             f"file://{self.folder}/{page}{sections}"],
            capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(re.findall(r".*CONSOLE.*", result.stderr), [])
        return result.stdout

    def widths(self, page, *widths):
        """The width that the content of a page takes in a frame of each width, in pixels: Chromium's own windows are no
        narrower than 500."""
        frames = "".join(f'<iframe src="/{page}" style="width: {width}px"></iframe>' for width in widths)
        self.write("frames.html", frames + """<script>onload = () => { document.body.dataset.widths = [...document.querySelectorAll(
          "iframe")].map(frame => frame.contentDocument.documentElement.scrollWidth); };</script>""")
        handler = functools.partial(QuietHandler, directory=self.folder)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            result = subprocess.run(
                [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
                 f"--user-data-dir={self.folder}/profile", "--dump-dom", f"http://127.0.0.1:{server.server_port}/frames.html"],
                capture_output=True, text=True, timeout=PATIENCE, check=False)
            server.shutdown()
        found = re.search(r'data-widths="([\d,]+)"', result.stdout)
        self.assertIsNotNone(found, result.stdout + result.stderr)
        return [int(width) for width in found.group(1).split(",")]

    def parts(self, page):
        """The texts of a page before and after its data, and the data."""
        with open(os.path.join(self.folder, page), encoding="utf-8") as file:
            text = file.read()
        begin = text.index('id="data">') + len('id="data">')
        end = text.index("</script>", begin)
        return text[:begin], text[end:], json.loads(text[begin:end])

    def data(self, page):
        return self.parts(page)[2]

    def charts(self, page, sections=""):
        """What the plots of a page show: {"labels": of datasets, "legend": [[text, style of its sign]], "least": the least value
        of each linear axis, "drawn": the least number drawn on that axis}."""
        with open(os.path.join(self.folder, page), encoding="utf-8") as file:
            text = file.read()
        probe = os.path.join(os.path.dirname(page), "probe.html")
        self.write(probe, text + """<script>setTimeout(() => { document.body.dataset.charts = JSON.stringify(
          Object.values(Chart.instances).map(chart => ({
            labels: chart.data.datasets.map(set => set.label || ""),
            legend: legendLabels(chart).map(item => [item.text, item.pointStyle]),
            least: Object.values(chart.scales).filter(scale => scale.type === "linear").map(scale => scale.min),
            drawn: Object.values(chart.scales).filter(scale => scale.type === "linear").map(scale => Math.min(
              ...chart.data.datasets.flatMap(set => (set.data || []).map(p => p === null ? 0 : typeof p === "number" ? p : p[scale.axis]))
                .filter(Number.isFinite)))}))); }, 1000);</script>""")
        found = re.search(r'data-charts="([^"]*)"', self.opened(probe, sections))
        self.assertIsNotNone(found)
        return json.loads(html.unescape(found.group(1)))

    def show(self, report, name):
        """Writes a page like that of an earlier comparison, with the data of `report`."""
        before, after, _ = self.parts("runs/report.html")
        self.write(name, before + json.dumps(report).replace("</", "<\\/") + after)

    def compare(self, *flags):
        compare(self.job, f"{self.folder}/runs", *flags)

    def copy_comparison(self):
        shutil.copytree(finished_comparison(), f"{self.folder}/runs")

    def test_first_screen_of_comparison_has_answer_picture_and_table(self):
        self.copy_comparison()
        page = self.opened("runs/report.html")
        self.assertRegex(page, r'<div class="verdict" id="verdict"><p>(Train with [ABC] \((one worker alone|2 )|No winner (between|among) [ABC])')
        self.assertRegex(page, r"<p><b>How sure:</b> ([ABC] (trains|takes|is) between [\d.]+ and [\d.]+ .*\(95&nbsp;% confidence, 2 runs of each\)|Two runs are too few for a confidence interval\.)")
        for name in ("one worker alone", "2 mirrored workers", "2 asynchronous workers with 1 parameter server"):
            self.assertRegex(page, f"<div>{name}<")
        self.assertIn("<th class=\"more\">global batch</th>", page)
        self.assertIn("2 runs of each variant.", page)
        self.assertNotIn("with 95 % confidence the mean lies between", page[:page.index("<script")], "two runs have no interval")
        self.assertEqual(sorted(re.findall(r'class="chip"[^>]*>(\w+)<', page)), ["A", "B", "C"])
        self.assertEqual(page.count("<canvas"), 1, "only the picture is drawn before a section is opened")
        report = self.data("runs/report.html")
        tied = report["tied"]
        self.assertEqual(page.count(">may be the best<"), len(tied) if len(tied) > 1 else 0)
        self.assertEqual(len(RECOMMENDED.findall(page)), 1 if len(tied) == 1 else 0)
        if len(tied) > 1:
            self.assertNotIn("<b>Why:</b>", page, "a difference that is not shown has no reason")
        for share, count in ((16, 1), (8, 2)):
            self.assertEqual(page.count(f'<div class="soft">{share} a worker</div>'), count)
        self.assertNotIn("<details open", page)

    def test_comparison_with_target_shows_which_runs_missed_it(self):
        self.compare("--repeats=2", "--target_accuracy=0.99")
        page = self.opened("runs/report.html")
        self.assertIn("No winner: no variant reached 99&nbsp;% validation accuracy in all of its runs.", page)
        self.assertIn("<th>time to&nbsp;99&nbsp;%,&nbsp;s</th>", page)
        self.assertEqual(page.count("<td>–, 0 of 2 runs</td>"), 3)

    def test_comparison_of_any_size_fits_screen_and_telephone(self):
        self.copy_comparison()
        report = self.data("runs/report.html")
        for count, rows in ((2, 2), (6, 6), (24, 8)):
            some = [dict(report["variant"][i % 3], label=chr(ord("A") + i)) for i in range(count)]
            name = f"{count}.html"
            self.show(dict(report, variant=some, choice="A", tied=["A"], difference=[]), name)
            shown = self.opened(name)
            self.assertEqual(shown.count('class="chip"'), count)
            table = shown[:shown.index("</table>")]
            self.assertIn(table.count('class="chip"'), (rows, rows + 1), "the recommended variant is always shown")
            for width, frame in zip(self.widths(name, 390, 1280), (390, 1280)):
                self.assertLessEqual(width, frame, f"{count} variants")

    def test_tied_variants_are_all_marked_as_may_be_the_best(self):
        self.copy_comparison()
        report = dict(self.data("runs/report.html"), choice="B")
        self.show(dict(report, tied=["B", "C"]), "tie.html")
        page = self.opened("tie.html")
        self.assertEqual(page.count(">may be the best<"), 2)
        self.assertIn("Variants that may be the best are not shown to be slower than B.", page)
        self.assertNotIn("<tr class=\"chosen\">", page)
        self.show(dict(report, tied=["B"]), "choice.html")
        page = self.opened("choice.html")
        self.assertEqual((len(RECOMMENDED.findall(page)), page.count("<tr class=\"chosen\">")), (1, 1))
        self.assertNotIn("may be the best", page[:page.index("<script")])

    def test_all_sections_of_comparison_can_be_opened(self):
        self.copy_comparison()
        page = self.opened("runs/report.html", "#all")
        self.assertGreater(page.count("<canvas"), 8)
        self.assertNotRegex(page, r'<details(?![^>]* open)')
        for text in ("Where the jobs differ", "A: local, 1 worker, global batch 16", "TMiAvg is the mean time"):
            self.assertIn(text, page)

    def test_comparison_without_accuracy_shows_times(self):
        self.compare("--set=data.validation_samples=0", "--set=evaluate_each_epoch=false")
        page = self.opened("runs/report.html", "#all")
        self.assertIn("No winner yet: ", page)
        self.assertIn("<figcaption>Training time", page)

    def test_report_of_single_run_has_curve_and_results(self):
        run_verb("train", self.job, f"--run_dir={self.folder}/run")
        page = self.opened("run/report.html", "#all")
        self.assertIn("Validation accuracy over training time", page)
        self.assertRegex(page, r"<td>training time</td><td>[\d.]+ s</td>")
        self.assertNotIn('class="chip"', page)

    def test_report_of_single_run_shows_the_loss_of_validation(self):
        run_verb("train", self.job, f"--run_dir={self.folder}/run")
        charts = self.charts("run/report.html", "#all")
        self.assertTrue(any("validation" in label for chart in charts for label in chart["labels"]), charts)
        self.assertIn("<figcaption>Loss", self.opened("run/report.html", "#all"))

    def test_legend_shows_a_dashed_line_as_a_line(self):
        self.compare("--target_accuracy=0.2")
        charts = self.charts("runs/report.html", "#all")
        targets = [sign for chart in charts for text, sign in chart["legend"] if (text or "").startswith("target")]
        self.assertGreater(len(targets), 0, charts)
        self.assertEqual(set(targets), {"line"})

    def test_axes_of_positive_values_do_not_begin_below_zero(self):
        self.copy_comparison()
        for chart in self.charts("runs/report.html", "#all"):
            for least, drawn in zip(chart["least"], chart["drawn"]):
                self.assertFalse(least < 0 <= (drawn or 0), chart)

    def test_colours_of_lines_can_be_told_from_paper_in_light_and_dark(self):
        self.copy_comparison()
        with open(f"{self.folder}/runs/report.html", encoding="utf-8") as file:
            text = file.read()
        dark, light = (re.findall(r'"#(\w{6})"', colours) for colours in
                       re.search(r"const colours = dark \? \[([^\]]+)\]\s*: \[([^\]]+)\]", text).groups())
        def luminance(colour):
            parts = [int(colour[i:i + 2], 16) / 255 for i in (0, 2, 4)]
            linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        self.assertGreaterEqual(min(len(dark), len(light)), 12)
        for paper, colours in (("12171e", dark), ("ffffff", light)):
            for colour in colours:
                one, two = sorted((luminance(paper), luminance(colour)))
                self.assertGreaterEqual((two + 0.05) / (one + 0.05), 3, f"{colour} on {paper}")

    def test_unfinished_run_without_validation_shows_its_loss(self):
        run_verb("train", self.job, f"--run_dir={self.folder}/run", "--set=data.validation_samples=0",
                 "--set=evaluate_each_epoch=false")
        path = os.path.join(self.folder, "run", "summary.json")
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
        summary["status"] = "interrupted"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(summary, file)
        run_verb("report", f"{self.folder}/run")
        page = self.opened("run/report.html")
        self.assertIn("This run was interrupted after 2 epochs", page)
        self.assertIn("<figcaption>Training loss over training time", page)
        self.assertEqual(page.count("<canvas"), 1)

    def test_page_of_study_runs_without_errors(self):
        study = self.write("study.textproto", STUDY)
        run_verb("study", "run", study, f"--run_dir={self.folder}/study", "--max_others_cpu=100")
        page = self.opened("study/study.html")
        self.assertGreater(page.count("<details"), 1)
        self.assertNotRegex(page, r"<details[^>]* open")
        self.assertGreater(self.opened("study/study.html", "#all").count("<canvas"), page.count("<canvas"))

    def test_live_page_needs_no_scrolling_sideways_on_a_telephone(self):
        run = f"{self.folder}/a_directory_with_a_name_that_is_longer_than_any_line_of_a_telephone"
        run_verb("train", self.job, f"--run_dir={run}")
        with View(run) as view:
            status, _, body = view.ask("/")
        self.assertEqual(status, 200)
        self.write("live.html", body)
        for width, frame in zip(self.widths("live.html", 390, 1280), (390, 1280)):
            self.assertLessEqual(width, frame)

    def test_live_page_merges_polled_points_into_its_curves(self):
        run = f"{self.folder}/run"
        run_verb("train", self.job, f"--run_dir={run}")
        with open(f"{run}/progress.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"progress": {"step": step, "epoch_samples_done": 1, "loss": 1}}) + "\n" for step in (1, 2, 3))
        with View(run) as view:
            body, mark = view.ask("/")[2], view.state()["mark"]
        # The first poll replaces the last point and adds two points. The second poll has the whole state. The third
        # poll fails.
        answers = [{"mark": "a", "curve_begin": 2, "curve": [{"step": step, "loss": 2} for step in (3, 4, 5)]},
                   {"mark": "b", "curve": [{"step": 9, "loss": 3}], "epoch": [{"step": 9, "validated": True, "validation_loss": 4}]}]
        self.write("live.html", body + f"""<script>
          const answers = {json.dumps(answers)}, seen = [], asked = [];
          window.fetch = async address => {{
            seen.push(Chart.getChart(plots.loss.canvas).data.datasets.map(set => set.data.map(p => [p.x, p.y])));
            document.body.dataset.seen = JSON.stringify(seen);
            asked.push(address);
            document.body.dataset.asked = asked.join(" ");
            return new Response(JSON.stringify(answers.shift() || {{}}), {{status: asked.length > 2 ? 503 : 200}});
          }};
        </script>""")
        page = self.opened("live.html")
        asked = re.search(r'data-asked="([^"]+)"', page).group(1).split()
        self.assertEqual(asked[:4], [f"/state.json?since={known}" for known in (mark, "a", "b", "b")])
        seen = json.loads(html.unescape(re.search(r'data-seen="([^"]+)"', page).group(1)))
        self.assertEqual(seen[:4], [[[[1, 1], [2, 1], [3, 1]], []], [[[1, 1], [2, 1], [3, 2], [4, 2], [5, 2]], []],
                                    [[[9, 3]], [[9, 4]]], [[[9, 3]], [[9, 4]]]])
        self.assertIn("The view is not served any more", page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
