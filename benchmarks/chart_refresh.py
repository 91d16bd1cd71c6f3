"""What one refresh of a chart costs, drawn by bqplot and by our own views: bytes of messages and the page's time.

The page is a real JupyterLab in Chromium; its time is that of its tasks (scripts, layout, painting), read from the
browser, so that a busy machine changes little. `python -m benchmarks.chart_refresh` prints the table.
"""

from __future__ import annotations

from playwright.sync_api import CDPSession

from benchmarks.widgets import lab
from tests.browser.jupyter import Notebook

TIMES = 20
SETUP = """
import json, time, numpy as np, bqplot, ipywidgets
from unittest import mock
from nbdebug.charts import Bars, HistogramGrid, Lines
from nbdebug.views import page
from nbdebug.widgets.charts import chart_widget
from nbdebug.widgets.pictures import Pictures
from nbdebug.widgets.viewer import viewer
rng = np.random.default_rng(0)
LAYERS = [f"encoder.layers.{i // 4}.part{i % 4}" for i in range(119)]
EDGES = np.linspace(-3, 3, 61).tolist()

def curves(points):
    return [("loss", np.abs(rng.normal(1, 0.1, points)).tolist()), ("val_loss", rng.random(points).tolist())]

def our_curves(points=300):
    made = [{"name": n, "steps": list(range(points)), "values": v, "last": v[-1]} for n, v in curves(points)]
    return {"title": "Training", "steps": points, "curves": made, "rates": [], "findings": [], "running": True}

def our_layers():
    return {"says": "", "edges": EDGES, "axis": "", "frames": None, "layers": [
        {"path": p, "module": "Linear", "shape": "8", "mean": 0, "std": 1, "low": -3, "high": 3, "zeros": 0, "bad": 0,
         "dead": 0, "saturated": 0, "calls": 1, "counts": rng.integers(0, 99, 60).tolist(), "own": None, "before": None}
        for p in LAYERS]}

def our_gradients():
    return {"says": "", "band": [1e-4, 1e-2], "parameters": [
        {"name": p, "shape": "8", "matrix": True, "trained": True, "weight": rng.random(), "gradient": rng.random(),
         "update": rng.random() / 99, "weights": None, "gradients": None} for p in LAYERS]}

class Heat:
    def __init__(self):
        scales = {"column": bqplot.OrdinalScale(), "row": bqplot.OrdinalScale(), "color": bqplot.ColorScale()}
        self.mark = bqplot.GridHeatMap(color=rng.random((119, 60)), scales=scales)
        self.view = bqplot.Figure(marks=[self.mark], animation_duration=0, layout={"height": "900px"})
    def update(self):
        self.mark.color = rng.random((119, 60))

class AllBars:
    def __init__(self):
        self.marks, self.figures = [], []
        for _ in range(3):
            mark = bqplot.Bars(x=LAYERS, y=rng.random(119), orientation="horizontal",
                               scales={"x": bqplot.OrdinalScale(), "y": bqplot.LinearScale()})
            axes = [bqplot.Axis(scale=mark.scales["x"], orientation="vertical")]
            self.marks.append(mark)
            self.figures.append(bqplot.Figure(marks=[mark], axes=axes, animation_duration=0,
                                              layout={"height": "2400px", "width": "400px"}))
        self.view = ipywidgets.HBox(self.figures)
    def update(self):
        for mark in self.marks:
            mark.y = rng.random(119)

class Curves:
    def __init__(self, points):
        self.points, self.view = points, chart_widget(Lines.of_losses(curves(points), "Loss"))
    def update(self):
        self.view._updated = 0.0
        self.view.update(Lines.of_losses(curves(self.points), "Loss"), final=False)

class OneLayer:
    def __init__(self):
        self.view = chart_widget(Bars(LAYERS[:32], rng.random(32), "norms"))
    def update(self):
        self.view._updated = 0.0
        self.view.update(Bars(LAYERS[:32], rng.random(32), "norms"), final=False)

class Run:
    # The loss of a training on the wizard's screen of the run, as a picture that is drawn anew or as a figure.
    def __init__(self, live):
        self.live, self.view = live, Pictures() if live else ipywidgets.HTML()
    def update(self):
        loss = Lines.of_losses(curves(200)[:1], "Loss of your training")
        if self.live:
            self.view._made, self.view._drawn = 0.0, time.monotonic()
            for chart in self.view._charts:
                chart._updated = 0.0
            self.view.grow(loss)
        else:
            self.view.value = page.drawn(loss, "loss", 500)

class Histogram:
    def __init__(self):
        self.view = chart_widget(self.made())
    def made(self):
        counts = (tuple(rng.integers(0, 99, 40).tolist()),)
        return HistogramGrid(("fc",), tuple(EDGES[:41]), counts, "Values", marked=(20,))
    def update(self):
        self.view._updated = 0.0
        self.view.update(self.made(), final=False)

class Ours:
    def __init__(self, name, data):
        self.data, self.view = data, viewer(name, data(), "")
    def update(self):
        self.view.data = self.data()

sent = []
def refresh(subject, times):
    from ipykernel.comm.comm import BaseComm
    whole, sent[:] = BaseComm.publish_msg, []
    def publish(self, kind, data=None, metadata=None, buffers=None, **more):
        sent.append(len(json.dumps(data, default=str)) + sum(memoryview(b).nbytes for b in buffers or ()))
        return whole(self, kind, data=data, metadata=metadata, buffers=buffers, **more)
    with mock.patch.object(BaseComm, "publish_msg", publish):
        for _ in range(times):
            subject.update()
            time.sleep(0.15)
    print("bytes", sum(sent) / times)
"""
SUBJECTS = {
    "two curves of 300 points, our view": "Ours('curve', our_curves)",
    "two curves of 300 points, bqplot": "Curves(300)",
    "two curves of 2,000 points, our view": "Ours('curve', lambda: our_curves(2000))",
    "two curves of 2,000 points, bqplot": "Curves(2000)",
    "heat map of 119 layers × 60 bins, our view": "Ours('activations', our_layers)",
    "heat map of 119 layers × 60 bins, bqplot": "Heat()",
    "bars of 119 gradients, weights and updates, our view": "Ours('gradients', our_gradients)",
    "bars of 119 gradients, weights and updates, bqplot": "AllBars()",
    "32 bars of a finding, bqplot": "OneLayer()",
    "loss of a run, 200 points, a picture": "Run(False)",
    "loss of a run, 200 points, bqplot": "Run(True)",
    "histogram of the selected layer, bqplot": "Histogram()",
}


def busy(session: CDPSession) -> float:
    """Return the seconds that the page has spent in tasks so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")


def measured(notebook: Notebook, cell: int) -> tuple[float, float]:
    """Return the kilobytes and the page's milliseconds of one refresh, without those of an idle page."""
    notebook.run_cell(cell)
    notebook.page.wait_for_timeout(3000)
    session = notebook.page.context.new_cdp_session(notebook.page)
    session.send("Performance.enable")
    begun = busy(session)
    notebook.page.wait_for_timeout(150 * TIMES)
    idle = busy(session) - begun
    begun = busy(session)
    notebook.run_cell(cell + 1)
    notebook.page.wait_for_timeout(1000)
    taken = busy(session) - begun - idle
    said = notebook.output(cell + 1).locator("pre", has_text="bytes ").first.inner_text()
    return float(said.split()[1]) / 1000, 1000 * taken / TIMES


def main() -> None:
    """Measure each in a notebook of its own and print the table."""
    print("| what | kB | ms |\n|---|---|---|")
    with lab() as notebook:
        for number, (what, subject) in enumerate(SUBJECTS.items()):
            cells = [SETUP, f"subject = {subject}\nsubject.view", f"refresh(subject, {TIMES})"]
            notebook.open(f"refresh-{number}.ipynb", cells)
            notebook.run_cell(0)
            kilobytes, milliseconds = measured(notebook, 1)
            print(f"| {what} | {kilobytes:.1f} | {milliseconds:.0f} |", flush=True)
        notebook.errors.clear()


if __name__ == "__main__":
    main()
