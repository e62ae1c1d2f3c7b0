"""Draws certificate-page.png, beside this file: the top of the page of a certificate, as headless Chromium shows it."""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import ViewportSize, sync_playwright

import dplateau as dp
from dplateau.data import load_dataset, sample_path
from dplateau.report import write_page

FOLDER = Path(__file__).parent
SIZE: ViewportSize = {"width": 1080, "height": 1400}
COLOURS = 255


def main() -> None:
    """Train the model of the page "Read a certificate", and take a picture of its certificate's page."""
    data = load_dataset(sample_path("adult-train"), "adult")
    model = dp.PrivateLogisticRegression(epsilon=1.0, delta=1e-5, classes=[0, 1], fit_intercept=False)
    model.fit(data.features, data.target)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "certificate.html"
        write_page(model.certificate_, page)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
        tab.goto(page.as_uri())
        taken = tab.screenshot()
        browser.close()
    Image.open(io.BytesIO(taken)).quantize(COLOURS, Image.Quantize.FASTOCTREE).save(FOLDER / "certificate-page.png", optimize=True)


if __name__ == "__main__":
    main()
