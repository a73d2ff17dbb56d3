"""`check_deployment`: prove that a deployment advises, by compiling something with it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pymlgo.deploy.deployment import Deployment
from pymlgo.toolchain.advisor import REPORT_VARIABLE, AdvisedProblem, AdvisorReport, Fallback, read_report
from pymlgo.toolchain.messages import explain
from pymlgo.toolchain.process import run

CHECK_LIMIT_S = 120.0
"""The probe compiles in 0.1 s."""

PROBE = """
static int square(int x) { return x * x + 3; }
static int mix(int a, int b) {
  for (int i = 0; i < b; ++i)
    a += square(a ^ i) % (b + 1);
  return a;
}
int probe(const int *p, int *q, int n) {
  int a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = p[6], h = p[7], i = p[8], j = p[9];
  int k = p[10], l = p[11], m = p[12], o = p[13], r = p[14], s = p[15], t = p[16], u = p[17], v = p[18], w = p[19];
  for (int x = 0; x < n; ++x) {
    a += b * q[x]; b ^= c + a; c += d * b; d ^= e + c; e += f * d; f ^= g + e; g += h * f; h ^= i + g; i += j * h;
    j ^= k + i; k += l * j; l ^= m + k; m += o * l; o ^= r + m; r += s * o; s ^= t + r; t += u * s; u ^= v + t;
    v += w * u; w ^= a + v;
    if (x % 7 == 0)
      q[x] = mix(a + c, e) + square(w);
  }
  q[0] = mix(a, b);
  return a + b + c + d + e + f + g + h + i + j + k + l + m + o + r + s + t + u + v + w;
}
"""
"""A source with decisions of every kind: calls to inline, and more values than registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a deployment did in one compile.

    Attributes:
        config: the configuration file.
        clang: the clang that compiled.
        works: the plugin was active and every policy of the deployment decided.
        active: the plugin was loaded and called.
        compiled: clang returned 0.
        problems: what was decided, by problem.
        fallbacks: where LLVM's default decided instead, and why.
        silent: problems of the deployment that nothing was decided about.
        message: what clang said; "" for nothing.
        explanation: what it means, where it is known.
    """

    config: Path
    clang: Path
    works: bool
    active: bool
    compiled: bool
    problems: Mapping[str, AdvisedProblem]
    fallbacks: tuple[Fallback, ...]
    silent: tuple[str, ...]
    message: str
    explanation: str | None


def check_deployment(deployment: Deployment, *, clang: Path | None = None) -> Check:
    """Compile a probe with the deployment, by `clang` or the clang that it was made for.

    Raises:
        ToolchainError: the clang cannot be started, or does not end.
    """
    compiler = clang or deployment.clang
    with tempfile.TemporaryDirectory(prefix="mlgo-check-") as name:
        folder = Path(name)
        source, report = folder / "probe.c", folder / "report"
        source.write_text(PROBE)
        command = (compiler, f"--config={deployment.config}", "-O2", "-c", source, "-o", folder / "probe.o")
        done = run(command, limit_s=CHECK_LIMIT_S, env={**os.environ, REPORT_VARIABLE: str(report)})
        said = read_report(report.read_text(errors="replace") if report.exists() else "")
    message = done.stderr.decode(errors="replace").strip()
    return _judged(deployment, compiler, said, done.returncode == 0, message)


def _judged(deployment: Deployment, clang: Path, said: AdvisorReport, compiled: bool, message: str) -> Check:
    expected = {each.problem for each in deployment.policies if each.problem}
    decided = {name for name, each in said.problems.items() if each.by_policy or each.by_override}
    silent = tuple(sorted(expected - decided))
    explanation = explain(message)
    if explanation is None and compiled and not said.active:
        explanation = "clang compiled without the plugin; is the configuration file another one?"
    return Check(
        config=deployment.config,
        clang=clang,
        works=compiled and bool(decided) and not silent and not said.fallbacks,
        active=bool(said.active),
        compiled=compiled,
        problems=said.problems,
        fallbacks=said.fallbacks,
        silent=silent,
        message=message,
        explanation=explanation,
    )
