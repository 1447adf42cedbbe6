"""One page about one story: a single file that needs no network, in light and dark, on screen and paper."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from tenure.audit.span import span_of
from tenure.report import sections
from tenure.report.colours import account_colours
from tenure.report.headline import PUBLISHED, tiles
from tenure.report.picture import picture_of
from tenure.report.picture_data import packed_picture
from tenure.story.columns import Story

FOLDER = Path(__file__).resolve().parent
PARTS = [
    ("headline", "Headline"),
    ("accounts-h", "Owed and delivered"),
    ("waits-h", "Waits"),
    ("occupancy-h", "Occupancy"),
    ("picture-h", "Picture"),
    ("reasons-h", "Why jobs waited"),
    ("ledger-h", "Preemptions"),
    ("signals-h", "Signals"),
    ("import-h", "Trace"),
    ("again-h", "Play it again"),
]


def write_report(
    story: Story,
    measures: Mapping[str, Any],
    file: Path,
    *,
    import_report: Mapping[str, Any] | None = None,
    title: str | None = None,
    scenario: str | Mapping[str, Any] | None = None,
) -> None:
    """Write the page about `story` to `file`.

    `measures`: as `--json` writes them. `import_report`: what reading the trace dropped, cut or guessed.
    `scenario`: its text or content, shown so that it can be played again.
    """
    picture = picture_of(story)
    packed = packed_picture(story, picture, measured_from_s=span_of(story).end_s - int(measures["span_s"]))
    shown = sections.all_sections(story, measures, picture, import_report)
    used = {int(row) for row in story.jobs["account"][picture.attempts["job"]]}
    paths = list(account_colours(story).items())
    with_jobs = {story.accounts[row].path for row in used}
    shown |= {
        "tiles": tiles(dict(measures)),
        "published": PUBLISHED,
        "legend": [
            {"row": i, "path": path or "(whole tree)", "colour": colour}
            for i, (path, colour) in enumerate(paths)
            if path in with_jobs
        ],
        "n_attempts": f"{len(picture.attempts):,}",
        "left_out": f"{picture_left(packed):,}" if picture_left(packed) else "",
        "left_out_gpu_h": packed["left_out_gpu_h"],
        "facts": sections.facts(story, measures, package_version()),
        "scenario": scenario
        if isinstance(scenario, str | None)
        else json.dumps(scenario, indent=2, default=str),
    }
    absent = {"reasons-h": not shown["reasons"], "signals-h": shown["signals"] is None,
              "import-h": not shown["imported"]}  # fmt: skip
    write_page(
        file,
        "report.html",
        title=title or f"{story.lab}: who got what they were owed",
        subtitle=sections.subtitle(story, measures),
        sections=[(id_, name) for id_, name in PARTS if not absent.get(id_, False)],
        scripts=("report.js", "picture_paint.js", "picture.js"),
        data_blocks={"picture-data": packed},
        **shown,
    )


def picture_left(packed: Mapping[str, Any]) -> int:
    return int(packed["left_out"])


def package_version() -> str:
    try:
        return version("tenure")
    except PackageNotFoundError:
        return "unknown"


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def embedded(content: Any) -> Markup:
    """JSON that may stand inside a script element, whatever names people gave their jobs."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # nosec: no sign of HTML is left in it


def _static(name: str) -> str:
    return (FOLDER / "static" / name).read_text(encoding="utf-8")


def _hash_of(script: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"


def write_page(
    file: Path,
    template: str,
    *,
    scripts: tuple[str, ...] = ("report.js",),
    data_blocks: Mapping[str, Any] | None = None,
    **shown: Any,
) -> None:
    """Fill `template` and write it. Its scripts are allowed by hash, so that no other can run."""
    texts = [_static(name) for name in scripts]
    html = (
        _templates()
        .get_template(template)
        .render(
            css=Markup(_static("report.css")),
            scripts=[Markup(text) for text in texts],
            script_hashes=Markup(" ".join(map(_hash_of, texts))),
            data_blocks=[(name, embedded(content)) for name, content in (data_blocks or {}).items()],
            version=package_version(),
            **shown,
        )
    )
    file.write_text(html, encoding="utf-8")
