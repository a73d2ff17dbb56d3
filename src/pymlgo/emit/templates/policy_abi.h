/* The C interface of a compiled policy: a shared object that exports these functions and needs nothing but libc.
 *
 * Tensors are row-major. Output 0 is the decision. The buffers of inputs and results are aligned to 64 bytes, belong to
 * the instance and keep their address as long as it lives; mlgo_run never changes an input. Instances are independent:
 * one for each thread. Indices at or beyond mlgo_num_inputs(), mlgo_num_outputs() or mlgo_num_models() give null or 0.
 */
#ifndef MLGO_POLICY_ABI_H
#define MLGO_POLICY_ABI_H

#include <stdint.h>

#define MLGO_POLICY_ABI_VERSION 1u

#ifdef __cplusplus
extern "C" {
#endif

/* MLGO_POLICY_ABI_VERSION of the object. Ask this first; other versions may have other functions. */
uint32_t mlgo_abi_version(void);

/* What the object was made from: its name, and the problem that it decides ("inlining", "eviction", "priority"). */
const char *mlgo_policy_name(void);
const char *mlgo_problem(void);

/* The instructions it was compiled for, as GCC's -march names them. */
const char *mlgo_isa(void);

/* Several policies in one object: the input "model_selector", uint64_t[2], picks one by the MD5 of its name, as LLVM's
 * ReleaseModeModelRunner does: {digest bytes 8-15, digest bytes 0-7}, both little-endian. One policy has no selector. */
uint32_t mlgo_num_models(void);
const char *mlgo_model_name(uint32_t model);

/* Tensors. A type is spelled as LLVM's TensorSpec spells it: "int64_t", "float". */
uint32_t mlgo_num_inputs(void);
const char *mlgo_input_name(uint32_t input);
const char *mlgo_input_type(uint32_t input);
uint32_t mlgo_input_rank(uint32_t input);
const int64_t *mlgo_input_shape(uint32_t input);
uint32_t mlgo_num_outputs(void);
const char *mlgo_output_name(uint32_t output);
const char *mlgo_output_type(uint32_t output);
uint32_t mlgo_output_rank(uint32_t output);
const int64_t *mlgo_output_shape(uint32_t output);

/* The value of an input that a compiler may lack, one whole tensor, which mlgo_create has stored in the instance; null if
 * the policy records none. */
const void *mlgo_input_default(uint32_t input);

/* An instance whose inputs are the defaults, or 0 where there is none. Null when memory is short or this CPU lacks
 * instructions of mlgo_isa(). */
void *mlgo_create(void);
void mlgo_destroy(void *instance);
void *mlgo_arg_data(void *instance, uint32_t input);
void *mlgo_result_data(void *instance, uint32_t output);

/* Evaluate the inputs into the results. */
void mlgo_run(void *instance);

/* Null after a good mlgo_run, else what was wrong (model_selector names no policy); the results are then 0. */
const char *mlgo_error(void *instance);

/* Evaluate `count` observations: inputs[i] is `count` tensors of input i one after the other, outputs[o] has room for as
 * many of output o, or is null if they are not wanted. No alignment beyond the element's. The instance's own inputs are
 * not read; mlgo_error tells of the first observation that failed, where the evaluation stops. */
void mlgo_run_batch(void *instance, uint64_t count, const void *const *inputs, void *const *outputs);

#ifdef __cplusplus
}
#endif

#endif /* MLGO_POLICY_ABI_H */
