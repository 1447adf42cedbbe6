"""How the many small kernels become one program quickly.

numba compiles each function whole: it optimises and emits it together with everything it calls, and again
inside each caller, and gives each a wrapper that unpacks its arguments from Python. For a hundred kernels
that call each other over twenty tables that is minutes. Here a `@kernel` is only translated (typed and
lowered); an `@entry` (what Python calls) links the parts it reaches, and the optimiser sees each once.

It rests on numba's documented custom pipelines and on three methods of its code library. Where a numba
does not have them, `PARTS` is None and every kernel is an ordinary njit function: slower to compile, the
same program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from numba.core import funcdesc, lowering
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
    from numba.core.compiler_machinery import FunctionPass, register_pass
    from numba.core.typed_passes import NativeLowering, NoPythonSupportedFeatureValidation
except ImportError:  # no numba, or one whose inside has moved
    PARTS: tuple[Any, Any] | None = None
else:

    class _Part(JITCodeLibrary):  # type: ignore[misc]
        """The lowered code of one kernel: to be linked, never run by itself."""

        def finalize(self) -> None:
            self._raise_if_finalized()
            self._finalized = True

        def _get_module_for_linking(self) -> Any:
            return self._final_module

    class _Whole(JITCodeLibrary):  # type: ignore[misc]
        """The code of an entry: all parts it reaches, each linked once and private to it."""

        def add_linking_library(self, library: Any) -> None:
            if library in self._linking_libraries:
                return
            super().add_linking_library(library)
            if isinstance(library, _Part):
                for part in library._linking_libraries:
                    self.add_linking_library(part)

        def finalize(self) -> None:
            # numba's own functions come last: what nothing calls yet when it is linked is dropped
            self._linking_libraries.sort(key=lambda library: not isinstance(library, _Part))
            super().finalize()

        def _optimize_final_module(self) -> None:
            for library in self._linking_libraries:
                if isinstance(library, _Part):
                    for function in library._final_module.functions:
                        if not function.is_declaration:
                            self._final_module.get_function(function.name).linkage = "internal"
            super()._optimize_final_module()

    def _stand_in() -> Callable[..., None]:
        """What a part has for an address: a key of its own of the type numba insists on.

        Python never calls it.
        """
        return [].append

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _LowerPart(NativeLowering):  # type: ignore[misc]
        """Lower the function and stop there: no wrapper, no optimiser, no machine code."""

        _name = "lower_part"

        def run_pass(self, state: Any) -> bool:
            context = state.targetctx
            library = _Part(context.codegen(), state.func_id.func_qualname)
            library._reload_init.update(state.reload_init)
            state.library = library
            described = funcdesc.PythonFunctionDescriptor.from_specialized_function(
                state.func_ir,
                state.typemap,
                state.return_type,
                state.calltypes,
                mangler=context.mangler,
                inline=state.flags.forceinline,
                noalias=state.flags.noalias,
                abi_tags=[state.flags.get_mangle_string()],
            )
            with context.push_code_library(library):
                lowered = lowering.Lower(context, library, described, state.func_ir, metadata=state.metadata)
                lowered.lower()
            token = _stand_in()
            context.insert_user_function(token, described, [library])
            state["cr"] = _LowerResult(described, lowered.call_helper, cfunc=token, env=lowered.env)
            return True

    @register_pass(mutates_CFG=False, analysis_only=False)
    class _OpenWhole(FunctionPass):  # type: ignore[misc]
        """Give an entry a library that links all parts."""

        _name = "open_whole"

        def __init__(self) -> None:
            FunctionPass.__init__(self)

        def run_pass(self, state: Any) -> bool:
            state.library = _Whole(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return True

    class PartCompiler(CompilerBase):  # type: ignore[misc]
        """The pipeline of a kernel."""

        def define_pipelines(self) -> list[Any]:
            pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state, name="part")
            pipeline.passes = [
                (_LowerPart, text) if step is NativeLowering else (step, text)
                for step, text in pipeline.passes
            ]
            pipeline.finalize()
            return [pipeline]

    class WholeCompiler(CompilerBase):  # type: ignore[misc]
        """The pipeline of an entry."""

        def define_pipelines(self) -> list[Any]:
            pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state, name="whole")
            pipeline.add_pass_after(_OpenWhole, NoPythonSupportedFeatureValidation)
            pipeline.finalize()
            return [pipeline]

    PARTS = (PartCompiler, WholeCompiler)
