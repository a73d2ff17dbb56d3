"""A compiled policy: the shared object that `mlgo policy compile` makes, called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from pymlgo.arrays import AnyArray
from pymlgo.errors import PolicyError
from pymlgo.policy.compiled_library import MODEL_SELECTOR, load_library, selector_words
from pymlgo.runner.model_runner import MLModelRunner, check_same_tensor
from pymlgo.tensor_spec import TensorSpec


class CompiledModel:
    """One instance of the policy in a shared object: its tables, and arrays that are its own buffers.

    The arrays live as long as the instance, which they keep alive.

    Source: emit/templates/policy_abi.h.

    Raises:
        PolicyError: the file is no compiled policy, or of another version, or this CPU cannot run it.
    """

    def __init__(self, library: Path) -> None:
        self._library = _loaded(library)
        self.file = library
        self._instance = ctypes.c_void_p(self._library.mlgo_create())
        if not self._instance:
            isa = self._library.mlgo_isa().decode()
            raise PolicyError(
                f"{library}: made for {isa}, which this CPU is not, or memory is short",
                hint="compile it on this machine",
            )
        self.problem: str = self._library.mlgo_problem().decode()
        self.inputs = self._specs("input")
        self.outputs = self._specs("output")
        self._run = self._library.mlgo_run
        self._has_selector = len(self.model_names) > 1  # all that can go wrong in a run
        self.input_arrays = tuple(self._array("arg", index, spec) for index, spec in enumerate(self.inputs))
        self.output_arrays = tuple(self._array("result", index, spec) for index, spec in enumerate(self.outputs))

    def __del__(self) -> None:
        if getattr(self, "_instance", None):
            self._library.mlgo_destroy(self._instance)

    def run(self) -> None:
        """Evaluate the inputs into the outputs.

        Raises:
            PolicyError: the selector names no policy of the object.
        """
        self._run(self._instance)
        if self._has_selector and (error := self._library.mlgo_error(self._instance)):
            raise PolicyError(f"{self.file}: {error.decode(errors='replace')}")

    def has_default(self, index: int) -> bool:
        """True if the input may stay unset."""
        return self._library.mlgo_input_default(index) is not None

    @property
    def model_names(self) -> tuple[str, ...]:
        """The policies in the object."""
        return tuple(self._library.mlgo_model_name(index).decode() for index in range(self._library.mlgo_num_models()))

    def _specs(self, kind: str) -> tuple[TensorSpec, ...]:
        library = self._library
        count = getattr(library, f"mlgo_num_{kind}s")()
        name, element, rank, shape = (getattr(library, f"mlgo_{kind}_{part}") for part in _TENSOR_PARTS)
        return tuple(
            TensorSpec(name(index).decode(), element(index).decode(), _dimensions(shape(index), rank(index)))
            for index in range(count)
        )

    def _array(self, kind: str, index: int, spec: TensorSpec) -> AnyArray:
        address = getattr(self._library, f"mlgo_{kind}_data")(self._instance, index)
        memory = (ctypes.c_char * spec.byte_size).from_address(address)
        memory.owner = self  # type: ignore[attr-defined]  # the array keeps `memory`, and so the instance
        return spec.view(memoryview(memory))


class ReleaseModeModelRunner(MLModelRunner):
    """Decides as a compiled policy does.

    Features that the policy knows are its own buffers, so nothing is copied. An object may hold several policies; the
    MD5 of `model_selector` picks one.

    Source: llvm/Analysis/ReleaseModeModelRunner.h (LLVM 22). Departures: what LLVM reports and goes on with (a
    selector that the model does not have, or has and was not given) is an error; so is an input of the policy that
    the compiler does not have and that has no default.

    Args:
        inputs: the compiler's features.
        decision: the name of the decision, e.g. `inlining_decision`.
        library: the compiled policy.
        model_selector: the name of the policy in an object that holds several.

    Raises:
        PolicyError: the object is unusable, does not fit the features, or has no such policy.
    """

    def __init__(self, inputs: Sequence[TensorSpec], decision: str, library: Path, *, model_selector: str = "") -> None:
        model = CompiledModel(library)
        made = {spec.name: index for index, spec in enumerate(model.outputs)}
        if decision not in made:
            raise PolicyError(f"{library} makes {', '.join(made)}, not {decision!r}")
        super().__init__(inputs, model.outputs[made[decision]])
        self._model = model
        self._result = model.output_arrays[made[decision]]
        known = {spec.name: index for index, spec in enumerate(model.inputs)}
        self._select(known, model_selector)
        for index, spec in enumerate(inputs):
            if spec.name in known:
                place = known.pop(spec.name)
                check_same_tensor(spec, model.inputs[place], str(library))
                self.set_up_buffer_for_tensor(index, spec, model.input_arrays[place])
            else:
                self.set_up_buffer_for_tensor(index, spec, None)
        lacking = [name for name, place in known.items() if not model.has_default(place)]
        if lacking:
            raise PolicyError(
                f"{library} needs {', '.join(map(repr, lacking))}, which the compiler does not have",
                hint="record a default for it in the policy and compile it again",
            )

    def evaluate_untyped(self) -> AnyArray:
        """Evaluate the compiled policy."""
        self._model.run()
        return self._result

    def _select(self, known: dict[str, int], selector: str) -> None:
        place = known.pop(MODEL_SELECTOR.name, None)
        names = ", ".join(self._model.model_names)
        if place is None:
            if selector:
                raise PolicyError(f"{self._model.file} holds one policy and takes no model_selector {selector!r}")
            return
        if selector not in self._model.model_names:
            raise PolicyError(
                f"{self._model.file} holds {names}; model_selector is {selector!r}", hint="name one of them"
            )
        self._model.input_arrays[place][:] = selector_words(selector)


_TENSOR_PARTS = ("name", "type", "rank", "shape")

_Index, _Text = ctypes.c_uint32, ctypes.c_char_p
_FUNCTIONS: dict[str, tuple[object, tuple[object, ...]]] = {
    "mlgo_problem": (_Text, ()),
    "mlgo_isa": (_Text, ()),
    "mlgo_num_models": (_Index, ()),
    "mlgo_model_name": (_Text, (_Index,)),
    "mlgo_num_inputs": (_Index, ()),
    "mlgo_num_outputs": (_Index, ()),
    "mlgo_input_default": (ctypes.c_void_p, (_Index,)),
    "mlgo_create": (ctypes.c_void_p, ()),
    "mlgo_destroy": (None, (ctypes.c_void_p,)),
    "mlgo_arg_data": (ctypes.c_void_p, (ctypes.c_void_p, _Index)),
    "mlgo_result_data": (ctypes.c_void_p, (ctypes.c_void_p, _Index)),
    "mlgo_run": (None, (ctypes.c_void_p,)),
    "mlgo_error": (_Text, (ctypes.c_void_p,)),
    **{f"mlgo_{kind}_{part}": (_Text, (_Index,)) for kind in ("input", "output") for part in ("name", "type")},
    **{f"mlgo_{kind}_rank": (_Index, (_Index,)) for kind in ("input", "output")},
    **{f"mlgo_{kind}_shape": (ctypes.POINTER(ctypes.c_int64), (_Index,)) for kind in ("input", "output")},
}


def _dimensions(pointer: ctypes._Pointer[ctypes.c_int64], rank: int) -> tuple[int, ...]:
    return tuple(pointer[:rank]) if rank else ()


def _loaded(file: Path) -> ctypes.CDLL:
    library = load_library(file)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, list(arguments)
    return library
