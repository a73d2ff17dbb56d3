/* The C interface of a compiled policy: what `mlgo policy compile` exports from a shared library and the
 * advisor plugin calls.
 *
 * Output 0 is the decision. Input and output buffers are 64-byte aligned and live as long as their instance;
 * mlgo_run leaves the inputs as they are. Instances share nothing, so each thread may run its own.
 */
#ifndef MLGO_POLICY_ABI_H
#define MLGO_POLICY_ABI_H

#include <stdint.h>

#define MLGO_POLICY_ABI_VERSION 1u

#ifdef __cplusplus
extern "C" {
#endif

uint32_t mlgo_abi_version(void);
const char *mlgo_policy_name(void);
const char *mlgo_problem(void); /* "inlining", "eviction" or "priority" */

uint32_t mlgo_num_inputs(void);
const char *mlgo_input_name(uint32_t);
const char *mlgo_input_type(uint32_t); /* LLVM's spelling, e.g. "int64_t" */
uint32_t mlgo_input_rank(uint32_t);
const int64_t *mlgo_input_shape(uint32_t);

uint32_t mlgo_num_outputs(void);
const char *mlgo_output_name(uint32_t);
const char *mlgo_output_type(uint32_t);
uint32_t mlgo_output_rank(uint32_t);
const int64_t *mlgo_output_shape(uint32_t);

void *mlgo_create(void);
void mlgo_destroy(void *);
void *mlgo_arg_data(void *, uint32_t);
void *mlgo_result_data(void *, uint32_t);
void mlgo_run(void *);

#ifdef __cplusplus
}
#endif
#endif
