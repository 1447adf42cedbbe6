"""How the many small kernels become one program quickly.

numba compiles each function whole: it optimises and emits it together with everything it calls, and again
inside each caller, and gives each a wrapper that unpacks its arguments from Python. For a hundred kernels
that call each other over twenty tables that is minutes. Here a `@kernel` is only translated (typed and
lowered); an `@entry` (what Python calls) links the parts it reaches, and the optimiser sees each once.

What all kernels are handed, the lab, the board and the policy, are dozens of tables: numba would copy two
hundred words at every call. A class of such a record is a `bundle`: kernels get one pointer, and read from
behind it where a table lies when they need it. A row is as long as its type says (numba would read the length
each time), and rows are counted from 0: no negative index counts from the end, which a bounds-checked run
asserts.

It rests on numba's documented custom pipelines and types and on three methods of its code library. Where a
numba does not have them, `PARTS` is None and every kernel is an ordinary njit function: slower to compile and
to run, the same program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import cgutils, funcdesc, lowering, types
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
    from numba.core.compiler_machinery import FunctionPass, register_pass
    from numba.core.datamodel import models
    from numba.core.typed_passes import NativeLowering, NoPythonSupportedFeatureValidation
    from numba.core.typing.templates import Signature
    from numba.extending import NativeValue, lower_getattr_generic, register_model, typeof_impl, unbox
    from numba.np.arrayobj import make_array, populate_array
except ImportError:  # no numba, or one whose inside has moved
    PARTS: tuple[Any, Any] | None = None

    def bundle(record: type) -> None:
        """Without parts a record is handed over as numba does it."""

else:

    class Bundle(types.NamedTuple):  # type: ignore[misc]
        """The type of a record of tables, or of numbers, that kernels get a pointer to."""

    @register_model(Bundle)
    class _BundleModel(models.PrimitiveModel):  # type: ignore[misc]
        """A pointer to the fields side by side."""

        def __init__(self, dmm: Any, fe_type: Any) -> None:
            fields = ir.LiteralStructType([dmm.lookup(one).get_value_type() for one in fe_type.types])
            super().__init__(dmm, fe_type, fields.as_pointer())

    def bundle(record: type) -> None:
        """From now on kernels get a pointer to records of this class, a NamedTuple."""

        def typed(value: Any, context: Any) -> Any:
            return Bundle([typeof_impl(one, context) for one in value], record)

        typeof_impl.register(record)(typed)

    @unbox(Bundle)
    def _lay_out(typ: Any, record: Any, c: Any) -> Any:
        """Write the fields where the pointer leads, for as long as the call from Python lasts."""
        fields = c.unbox(types.NamedTuple(typ.types, typ.instance_class), record)
        place = cgutils.alloca_once_value(c.builder, fields.value)
        # What is behind the pointer never changes (`_read`): the optimiser must not see it being written
        kind = ir.FunctionType(place.type, [place.type])
        pointer = c.builder.asm(kind, "", "=r,0,~{memory}", [place], True)
        return NativeValue(pointer, cleanup=fields.cleanup, is_error=fields.is_error)

    def _read(builder: Any, pointer: Any, *place: int) -> Any:
        """A word of a bundle. It is the same whenever it is read."""
        word = builder.load(cgutils.gep_inbounds(builder, pointer, 0, *place))
        word.set_metadata("invariant.load", builder.module.add_metadata([]))
        return word

    @lower_getattr_generic(Bundle)
    def _field(context: Any, builder: Any, typ: Any, pointer: Any, name: str) -> Any:
        """A table of a bundle, or a number."""
        index = typ.fields.index(name)
        kind = typ.types[index]
        if not isinstance(kind, types.Array) or kind.layout != "C":
            return _read(builder, pointer, index)
        table = make_array(kind)(context, builder)
        words = context.data_model_manager[kind]._fields
        shape = [_read(builder, pointer, index, words.index("shape"), axis) for axis in range(kind.ndim)]
        item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        strides = [context.get_constant(types.intp, item)]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        populate_array(
            table,
            data=_read(builder, pointer, index, words.index("data")),
            shape=shape,
            strides=strides,
            itemsize=item,
            meminfo=None,
        )
        return table._getvalue()

    def _from_zero(signature: Any) -> Any:
        """The signature of looking a row up by a number that is not negative."""
        table, index, *rest = signature.args
        if not isinstance(table, types.Array):
            return signature
        if isinstance(index, types.Integer):
            index = types.uintp
        elif isinstance(index, types.BaseTuple):
            counted = [types.uintp if isinstance(one, types.Integer) else one for one in index]
            index = types.BaseTuple.from_types(counted)
        return Signature(signature.return_type, (table, index, *rest), signature.recvr)

    class _Lower(lowering.Lower):  # type: ignore[misc]
        """As numba lowers a function, but an index is never negative."""

        def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
            return super().lower_getitem(resty, expr, value, index, _from_zero(signature))

        def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
            return super().lower_setitem(target_var, index_var, value_var, _from_zero(signature))

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
                lowered = _Lower(context, library, described, state.func_ir, metadata=state.metadata)
                lowered.lower()
            token = _stand_in()
            context.insert_user_function(token, described, [library])
            state["cr"] = _LowerResult(described, lowered.call_helper, cfunc=token, env=lowered.env)
            return True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _LowerWhole(NativeLowering):  # type: ignore[misc]
        """Lower an entry, wrapper and all."""

        _name = "lower_whole"

        @property
        def lowering_class(self) -> Any:
            return _Lower

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

    def _lowered_by(step: Any, pipeline: Any) -> Any:
        """The pipeline, ready, with a lowering of ours."""
        pipeline.passes = [(step if one is NativeLowering else one, text) for one, text in pipeline.passes]
        pipeline.finalize()
        return pipeline

    class PartCompiler(CompilerBase):  # type: ignore[misc]
        """The pipeline of a kernel."""

        def define_pipelines(self) -> list[Any]:
            pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state, name="part")
            return [_lowered_by(_LowerPart, pipeline)]

    class WholeCompiler(CompilerBase):  # type: ignore[misc]
        """The pipeline of an entry."""

        def define_pipelines(self) -> list[Any]:
            pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state, name="whole")
            pipeline.add_pass_after(_OpenWhole, NoPythonSupportedFeatureValidation)
            return [_lowered_by(_LowerWhole, pipeline)]

    PARTS = (PartCompiler, WholeCompiler)
