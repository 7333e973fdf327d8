"""What the documentation site needs beside its pages: headings and links as the repository has them.

MkDocs calls these functions (``hooks`` of mkdocs.yml). Pages link to files of the repository that lie outside docs:
examples and measured numbers. The site has copies of those below ``repository``, and the links lead there.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

ROOT = Path(__file__).parents[1]
COPIES = "repository"  # folder of the site
INTERVAL = re.compile(r"(?<=\d) ± (?=\d)")
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Anchors of headings as code hosts make them, so that a link works in both places."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Copies of all files outside docs that a page links to."""
    wanted = {target for page in files.documentation_pages() for target in outside(page.src_uri, page.content_string)}
    for target in sorted(wanted):
        name = f"{COPIES}/{target}"
        files.append(File.generated(config, name, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to those files lead to the copies, and a number stays on one line with its interval."""
    here = posixpath.dirname(page.file.src_uri)

    def redirected(found: re.Match[str]) -> str:
        target = _outside(page.file.src_uri, found[2])
        if target is None:
            return found[0]
        return f"{found[1]}{posixpath.relpath(f'{COPIES}/{target}', here or '.')}{found[3] or ''})"

    joined = [INTERVAL.sub("\u00a0±\u00a0", line) if line.startswith("|") else line for line in markdown.split("\n")]
    return LINK.sub(redirected, "\n".join(joined))


def outside(page: str, markdown: str) -> set[str]:
    """The files outside docs that a page links to, as paths in the repository."""
    found = (_outside(page, link) for _, link, _ in LINK.findall(markdown))
    return {target for target in found if target is not None}


def _outside(page: str, link: str) -> str | None:
    """None for a page of docs, for another host, and for what is no file."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return target if not target.startswith(("docs/", "..")) and (ROOT / target).is_file() else None
