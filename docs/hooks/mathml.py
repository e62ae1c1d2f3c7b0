"""Formulas become MathML while the site is built, so that a browser shows them without a script and without another site's files.

``pymdownx.arithmatex`` marks ``$...$`` and ``$$...$$``, and ``latex2mathml`` converts them. Browsers follow MathML Core,
which knows less than that writes: here letters of another alphabet become characters of their own, and signs, bars and names of
functions get the space that TeX gives them. A formula that does not convert, or that keeps an unknown command, ends the build.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import convert_to_element
from mkdocs.exceptions import PluginError

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(?P<latex>.*?)\\\]\s*</div>', re.DOTALL)
INLINE = re.compile(
    r"""(?P<before>[(\["]*)<span class="arithmatex">\\\((?P<latex>.*?)\\\)</span>(?P<after>[-.,;:!?)\]"']*)""", re.DOTALL
)
# The converter forgets to which side these open, or takes an operator for a letter; a character of private use stands in for them.
FENCES = {
    r"\lvert": ("|", "prefix"),
    r"\rvert": ("|", "postfix"),
    r"\lVert": ("‖", "prefix"),
    r"\rVert": ("‖", "postfix"),
    r"\langle": ("⟨", "prefix"),
    r"\rangle": ("⟩", "postfix"),
    r"\lfloor": ("⌊", "prefix"),
    r"\rfloor": ("⌋", "postfix"),
    r"\lceil": ("⌈", "prefix"),
    r"\rceil": ("⌉", "postfix"),
    r"\lbrace": ("{", "prefix"),
    r"\rbrace": ("}", "postfix"),
    r"\pm": ("±", "infix"),
    r"\mp": ("∓", "infix"),
    r"\perp": ("⟂", "infix"),
    r"\sim": ("\u223c", "infix"),
    r"\setminus": ("\u2216", "infix"),
    r"\iff": ("⟺", "infix"),
    r"\implies": ("⟹", "infix"),
}
MARKS = {command: chr(0xE000 + place) for place, command in enumerate(FENCES)}
MARKED = {MARKS[command]: fence for command, fence in FENCES.items()}
NAMES = {**MARKS, r"\arg": r"\operatorname{arg}"}
COMMAND = re.compile(r"(?<!\\left)(?<!\\right)\\[A-Za-z]+")
ALPHABETS = {"double-struck": "DOUBLE-STRUCK", "script": "SCRIPT", "fraktur": "FRAKTUR", "bold": "BOLD"}
SCRIPTED = {"msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2, "munderover": 3}
PARTS = {**SCRIPTED, "mfrac": 2, "mroot": 2}
LARGE = set("∑∏∫∮")
LIMITS = {"sup", "inf", "max", "min", "lim"}  # Below them in a display, beside them in a line.
PRIMES = set("\u2032\u2033\u2034")
ORDINARY = set("∇∂∅∞∎…∀∃\u22a4") | PRIMES
WIDTHS = {"thinmathspace": "0.1667em", "mediummathspace": "0.2222em", "thickmathspace": "0.2778em"}
OPENING, CLOSING, SIGNS = set("([{⟨⌊⌈"), set(")]}⟩⌋⌉!"), set("+-±∓\u2212")
THIN, TIGHT = "0.1667em", "0.08em"


def on_page_content(content: str, page: Page, **_: object) -> str:
    """Replace every formula of a page; mkdocs calls it between Markdown and the theme."""

    def display(found: re.Match[str]) -> str:
        return mathml(html.unescape(found["latex"]).strip(), True, page.file.src_uri)

    def inline(found: re.Match[str]) -> str:
        math = mathml(html.unescape(found["latex"]).strip(), False, page.file.src_uri)
        return f'<span class="inline-formula">{found["before"]}{math}{found["after"]}</span>'  # A line ends neither here nor there.

    return INLINE.sub(inline, DISPLAY.sub(display, content))


def mathml(latex: str, display: bool, page: str) -> str:
    """Convert one formula.

    Parameters
    ----------
    latex
        The formula without its dollars.
    display
        Whether it stands on lines of its own; its box then scrolls where a page is too narrow for it, by keyboard as well.
    page
        Where it stands, for the message.

    Raises
    ------
    PluginError
        If it does not convert, or a command that nobody knows is left in it; names page and formula.
    """
    try:
        braces = re.sub(r"\\[^A-Za-z]", "", latex)
        if braces.count("{") != braces.count("}"):
            raise ValueError("braces do not match")
        if "%" in braces:
            raise ValueError("a % begins a comment")
        marked = COMMAND.sub(lambda found: NAMES.get(found[0], found[0]), latex.replace("{aligned}", "{split}"))
        math = convert_to_element(marked, display="block" if display else "inline")
        for element in math.iter():
            letters(element)
        space(math)
    except Exception as error:
        raise PluginError(
            f"{page}: the formula ${latex}$ does not convert: {str(error) or type(error).__name__}. Correct it."
        ) from error
    del math.attrib["xmlns"]
    if not display:
        del math.attrib["display"]
    text = tostring(math, encoding="unicode", short_empty_elements=False)
    return f'<div class="formula" tabindex="0" role="group" aria-label="formula">{text}</div>' if display else text


def letters(element: Element) -> None:
    """Write the characters of one element as MathML Core knows them.

    Raises
    ------
    ValueError
        If there is something in it that the converter passed on as it stood.
    """
    text = element.text = html.unescape(element.text or "")
    if element.tag == "mspace" and "linebreak" in element.attrib:
        raise ValueError("a new line needs \\begin{aligned} or \\begin{cases}")
    if element.tag == "mspace":
        element.attrib["width"] = WIDTHS.get(element.attrib["width"], element.attrib["width"])
    if text.startswith("\\"):
        raise ValueError(f"{text} is not known")
    if text in {"&", "#", "$", "%"}:
        raise ValueError(f"a {text} has no place in it")
    if len(element) != PARTS.get(element.tag, len(element)):
        raise ValueError("a fraction, root or index lacks a part")
    if text in {";", ":"}:
        element.tag = "mo"
    if text == "*":
        element.text = "\u2217"
    if text in MARKED:
        element.tag, (element.text, form) = "mo", MARKED[text]
        element.attrib.update(form=form, stretchy="false")
    if element.tag == "msub" and element[0].text in LIMITS:
        element.tag = "munder"
        element[0].set("movablelimits", "true")
    variant = element.attrib.pop("mathvariant", None)
    if variant in ALPHABETS and element.tag != "mtext":
        element.text = "".join(styled(letter, ALPHABETS[variant]) for letter in text)
    elif element.tag in {"mi", "mo"} and (
        text in ORDINARY or (len(text) == 1 and unicodedata.name(text, "").startswith("GREEK CAPITAL"))
    ):
        element.tag, element.attrib = "mi", {"mathvariant": "normal"}
        if text in PRIMES:
            element.set("class", "prime")
    elif variant == "normal" and element.tag == "mi":
        element.set("mathvariant", "normal")


def styled(letter: str, alphabet: str) -> str:
    """Return a letter or digit of another alphabet; some letters had a place in Unicode before the others."""
    kind, name = unicodedata.name(letter).replace("LATIN ", "").replace(" LETTER", "").split(" ", 1)
    for full in (f"MATHEMATICAL {alphabet} {kind} {name}", f"{alphabet} {kind} {name}", f"BLACK-LETTER {kind} {name}"):
        try:
            return unicodedata.lookup(full)
        except KeyError:
            continue
    raise ValueError(f"there is no {alphabet.lower()} {letter}")


def space(row: Element, index: bool = False) -> None:
    """Set the space around operators: MathML Core looks at their place in a row only, TeX at what stands beside them."""
    children = list(row)
    for place, child in enumerate(children):
        space(child, index or (place > 0 and row.tag in SCRIPTED))
    if row.tag in PARTS:
        return
    for place, child in enumerate(children):
        core = end(child, 0)
        if core.tag not in {"mi", "mo"} or (child.tag == "mrow" and len(child)):
            continue
        before = role(children[place - 1], -1) if place else "open"
        after = role(children[place + 1], 0) if place + 1 < len(children) else "close"
        kind = role(core, 0)
        if kind == "function":
            core.tag = "mo"
            wide = before in {"operand", "close"}, after in {"operand", "function"}
            core.attrib.update(form="prefix", lspace=THIN if wide[0] else "0", rspace=THIN if wide[1] else "0")
        elif core.text == ".":
            core.attrib.update(lspace="0", rspace="0")
        elif core.text == ":":
            core.attrib.update(lspace=WIDTHS["thickmathspace"], rspace=WIDTHS["thickmathspace"])
        elif core.text == "·" and before in {"open", "operator"}:
            core.tag = "mi"
        elif core.text == "/" or (kind == "operator" and before == "open" and after == "close"):
            core.attrib.update(lspace="0", rspace="0")
        elif core.text in SIGNS and before not in {"operand", "close"}:
            core.attrib.update(form="prefix", lspace="0", rspace="0")
        elif core.text in {"|", "‖"} and "form" not in core.attrib:
            core.attrib.update(form="prefix", stretchy="false")
        elif kind == "operator" and index:
            core.attrib.update(lspace=TIGHT, rspace=TIGHT)
        elif kind == "operator" and place == 0:
            core.set("lspace", "0")


def end(element: Element, side: int) -> Element:
    """Return what stands at one end of an element: 0 the left one, -1 the right one. Indices are passed over."""
    while len(element) and element.tag in {*SCRIPTED, "mrow", "mstyle"}:
        element = element[0 if element.tag in SCRIPTED else side]
    return element


def role(element: Element, side: int) -> str:
    """Tell what the space beside an element depends on."""
    core = end(element, side)
    text = core.text or ""
    if core.tag == "mo" and text in LARGE:
        return "function"
    if len(text) > 1 and text.isascii() and text.replace(" ", "").isalpha() and core.tag in {"mi", "mo"}:
        return "function"
    if core.tag != "mo" or (text in {"|", "‖"} and "form" not in core.attrib):
        return "operand"
    form = core.get("form")
    if text in OPENING or (form == "prefix" and text not in SIGNS):
        return "open"
    return "close" if text in CLOSING or form == "postfix" else "operator"
