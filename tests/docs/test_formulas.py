"""Formulas of the pages: every one converts to MathML, nothing else is taken for one, and a broken one ends the build."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
PROOFS = sorted((DOCS / "proofs").glob("*.md"))
pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "latex2mathml")), reason="mkdocs is not installed"
)
# What stands in backticks or in a fence is not a formula.
CODE = re.compile(r"^```.*?^```$|``.+?``|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mathml_hook", DOCS / "hooks" / "mathml.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def markdown() -> Any:
    """Markdown as the site is made from, less what needs the site."""
    from markdown import Markdown
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "mkdocs.yml"))
    names = [name for name in config["markdown_extensions"] if "snippets" not in name and "mkdocstrings" not in name]
    return Markdown(extensions=names, extension_configs={name: config["mdx_configs"].get(name, {}) for name in names})


def name(page: Path) -> str:
    return str(page.relative_to(DOCS))


def built(hook: ModuleType, markdown: Any, text: str, page: str = "page.md") -> str:
    return hook.on_page_content(markdown.reset().convert(text), page=SimpleNamespace(file=SimpleNamespace(src_uri=page)))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_formula_of_a_page_converts(page: Path, hook: ModuleType, markdown: Any) -> None:
    text = page.read_text(encoding="utf-8")
    shown = built(hook, markdown, text, name(page))
    assert "arithmatex" not in shown
    formulas = re.findall(r"<math.*?</math>", shown, re.DOTALL)
    assert not [formula for formula in formulas if "\\" in formula or re.search("[\ue000-\uf8ff]", formula)]
    # Two dollars a formula, or four: a third one, or a blank within, would make text of a formula, and a formula of text.
    source = CODE.sub("", text)
    assert source.count("$") == 2 * (len(formulas) - shown.count('class="formula"')) + 4 * shown.count('class="formula"')


@pytest.mark.parametrize("page", PROOFS, ids=name)
def test_every_proof_has_formulas_and_no_older_notation(page: Path, hook: ModuleType, markdown: Any) -> None:
    text = page.read_text(encoding="utf-8")
    assert built(hook, markdown, text).count("<math") >= 5
    headings = re.findall(r"^#+ .*$", text, re.MULTILINE)
    assert not [heading for heading in headings if "$" in heading], "a heading is a link's target and stands in the navigation"
    prose = re.sub(r"\$\$.*?\$\$|\$[^$]+\$", "", CODE.sub("", re.sub(r"^#+ .*$", "", text, flags=re.MULTILINE)), flags=re.DOTALL)
    assert not re.findall("</?su[bp]>|[\u0391-\u03c9≤≥∑∏∫√²₊]", prose)


@pytest.mark.parametrize(
    ("latex", "reason"),
    [
        (r"\foo x", r"\foo is not known"),
        (r"\lvertx", r"\lvertx is not known"),
        (r"{x", "braces do not match"),
        (r"\frac{a}", "lacks a part"),
        (r"x_", "MissingSuperScriptOrSubscriptError"),
        (r"\left( x", "ExtraLeftOrMissingRightError"),
        (r"\begin{aligned} x", "MissingEndError"),
        (r"a \\ b", "a new line needs"),
        (r"a & b", "a & has no place"),
        (r"a % b", "begins a comment"),
        (r"\mathbb{+}", "there is no"),
    ],
)
@pytest.mark.parametrize("dollars", ["$", "$$"])
def test_broken_formula_ends_the_build(latex: str, reason: str, dollars: str, hook: ModuleType, markdown: Any) -> None:
    from mkdocs.exceptions import PluginError

    with pytest.raises(PluginError, match=re.escape(reason)) as caught:
        built(hook, markdown, f"Let\n\n{dollars}{latex}{dollars}\n", "proofs/example.md")
    assert "proofs/example.md" in str(caught.value)
    assert latex in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 a month.",
        "Between $ 5 and 6 $ a month.",
        "A path: `$HOME/$USER`.",
        "```console\n$ dplateau account --n 10\n$ dplateau demo\n```",
        '```python\nprint(schema["$id"], "$x$")\n```',
        r"From 5\$ to 6\$.",
    ],
)
def test_other_dollars_are_left_alone(text: str, hook: ModuleType, markdown: Any) -> None:
    shown = built(hook, markdown, text)
    assert "<math" not in shown
    assert shown == markdown.reset().convert(text)


@pytest.mark.parametrize(
    ("latex", "part"),
    [
        (r"\mathbb{E}_P", "<msub><mi>\U0001d53c</mi><mi>P</mi></msub>"),
        (r"\mathbb R\mathcal H\mathfrak C", "<mi>\u211d</mi><mi>\u210b</mi><mi>\u212d</mi>"),
        (r"\Phi", '<mi mathvariant="normal">Φ</mi>'),
        (r"\lvert x\rvert", '<mo form="prefix" stretchy="false">|</mo><mi>x</mi><mo form="postfix" stretchy="false">|</mo>'),
        (r"2\log x", '<mo form="prefix" lspace="0.1667em" rspace="0.1667em">log</mo>'),
        (r"2\log(x)", '<mo form="prefix" lspace="0.1667em" rspace="0">log</mo>'),
        (r"\sup_y f", '<munder><mo movablelimits="true" form="prefix" lspace="0" rspace="0.1667em">sup</mo><mi>y</mi></munder>'),
        (r"f(-x)", '<mo form="prefix" lspace="0" rspace="0">\u2212</mo><mi>x</mi>'),
        (r"f-x", "<mi>f</mi><mo>\u2212</mo><mi>x</mi>"),
        (
            r"\begin{aligned} a &= b \\ &= c \end{aligned}",
            '<mtr><mtd columnalign="right"></mtd><mtd columnalign="left"><mi></mi><mo>=</mo>',
        ),
    ],
)
def test_what_browsers_need_is_written(latex: str, part: str, hook: ModuleType) -> None:
    assert part in hook.mathml(latex, False, "page.md")


def test_display_formula_has_a_box_that_the_keyboard_scrolls(hook: ModuleType, markdown: Any) -> None:
    shown = built(hook, markdown, "As\n\n$$\na < b\n$$\n\nit is so ($a$-bounded).")
    assert '<div class="formula" tabindex="0" role="group" aria-label="formula"><math display="block">' in shown
    assert "<mo>&lt;</mo>" in shown
    assert '<span class="inline-formula">(<math><mrow><mi>a</mi></mrow></math>-</span>bounded).' in shown


def test_the_site_uses_the_hook_and_ships_its_font_with_the_licence() -> None:
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "mkdocs.yml"))
    assert "docs/hooks/mathml.py" in config["hooks"]
    font = DOCS / "assets" / "stix-two-math.woff2"
    assert font.read_bytes()[:4] == b"wOF2"
    assert font.stat().st_size < 150_000
    assert f"assets/{font.name}" in (DOCS / "style.css").read_text(encoding="utf-8")
    assert "SIL OPEN FONT LICENSE Version 1.1" in font.with_suffix(".txt").read_text(encoding="utf-8")
