"""Shared objects that look like compiled policies and are wrong in one way each."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = """
#include <stdint.h>
#include <stdlib.h>
#include <math.h>
#ifndef PROBLEM
#define PROBLEM "inlining"
#endif
#ifndef VERSION
#define VERSION 1
#endif
#ifndef INPUT
#define INPUT "cost_estimate"
#endif
#ifndef INPUT_TYPE
#define INPUT_TYPE "int64_t"
#endif
#ifndef ANSWER
#define ANSWER 0
#endif
#ifndef BEFORE
#define BEFORE
#endif
#ifndef DECISION
#define DECISION int64_t
#define DECISION_TYPE "int64_t"
#define DECISION_NAME "inlining_decision"
#endif
extern "C" {
struct Instance { alignas(64) int64_t input[64]; alignas(64) DECISION decision; alignas(64) float logit; };
static const int64_t shape[] = {1};
#ifdef ROW
static const int64_t input_shape[] = {1, 33};
enum { RANK = 2 };
#else
static const int64_t input_shape[] = {1};
enum { RANK = 1 };
#endif
uint32_t mlgo_abi_version(void) { return VERSION; }
const char *mlgo_policy_name(void) { return "bad"; }
const char *mlgo_problem(void) { return PROBLEM; }
const char *mlgo_isa(void) { return "x86-64"; }
uint32_t mlgo_num_inputs(void) { return 1; }
const char *mlgo_input_name(uint32_t) { return INPUT; }
const char *mlgo_input_type(uint32_t) { return INPUT_TYPE; }
uint32_t mlgo_input_rank(uint32_t) { return RANK; }
const int64_t *mlgo_input_shape(uint32_t) { return input_shape; }
const void *mlgo_input_default(uint32_t) { return 0; }
uint32_t mlgo_num_outputs(void) { return 2; }
const char *mlgo_output_name(uint32_t output) { return output ? "logit" : DECISION_NAME; }
const char *mlgo_output_type(uint32_t output) { return output ? "float" : DECISION_TYPE; }
uint32_t mlgo_output_rank(uint32_t) { return 1; }
const int64_t *mlgo_output_shape(uint32_t) { return shape; }
void *mlgo_create(void) { return aligned_alloc(64, sizeof(Instance)); }
void mlgo_destroy(void *instance) { free(instance); }
void *mlgo_arg_data(void *instance, uint32_t) { return static_cast<Instance *>(instance)->input; }
void *mlgo_result_data(void *instance, uint32_t output) {
  Instance &own = *static_cast<Instance *>(instance);
  return output ? static_cast<void *>(&own.logit) : static_cast<void *>(&own.decision);
}
#ifndef NO_RUN
static unsigned calls;
void mlgo_run(void *instance) {
  Instance &own = *static_cast<Instance *>(instance);
  const int64_t *in = own.input;
  (void)in;
  ++calls;
  own.logit = 0;
  BEFORE;
  own.decision = ANSWER;
}
#endif
const char *mlgo_error(void *) { return 0; }
}
"""


def build_policy(folder: Path, name: str, **definitions: str) -> Path:
    """A library in which the named macros of `SOURCE` are set."""
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(SOURCE)
    flags = [f"-D{key}={value}" for key, value in definitions.items()]
    subprocess.run(["g++", "-w", "-std=c++17", "-shared", "-fPIC", *flags, source, "-o", library], check=True)
    return library
