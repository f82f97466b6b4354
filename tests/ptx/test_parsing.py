"""What the parser takes, and what it says of what it does not."""

import numpy as np
import pytest
from launching import HEAD, entry, launch

from lamina.errors import FormatError, UnsupportedError
from lamina.testing.ptx import Device, WrongArchitecture, parse


def test_a_module_has_its_version_target_and_kernels() -> None:
    module = parse(entry(""))
    assert (module.version, module.target) == ("8.7", "sm_80")
    assert [function.name for function in module.functions.values()] == ["k"]


def test_parameters_lie_on_their_alignment() -> None:
    text = HEAD.format(target="sm_80") + (
        ".visible .entry k(.param .u8 a, .param .u64 .ptr .global .align 16 b,"
        " .param .align 16 .b8 c[20], .param .f32 d) { ret; }"
    )
    places = Device().load(text).kernel("k").params
    assert [place.offset for place in places] == [0, 8, 16, 36]


def test_information_for_other_tools_is_skipped() -> None:
    body = '.loc 1 2 3\n.pragma "nounroll";\n st.global.u32 [%rd0], 7; // a note\n /* two\nlines */'
    before = '.file 1 "k.cu"\n.section .debug_str { .b8 1 }\n'
    assert launch(entry(body, before=before), 1, 1, np.zeros(1, "u4"))[0][0] == 7


def test_names_in_inner_braces_are_their_own() -> None:
    body = """
    mov.u32 %r1, 1;
    { .reg .b32 %r1; .reg .pred done; mov.u32 %r1, 5; setp.eq.u32 done, %r1, 5;
      @done bra OUT; mov.u32 %r1, 9; OUT: st.global.u32 [%rd0], %r1; }
    { .reg .b32 %r1; OUT: mov.u32 %r1, 6; st.global.u32 [%rd0+4], %r1; }
    st.global.u32 [%rd0+8], %r1;
    """
    assert launch(entry(body), 1, 1, np.zeros(3, "u4"))[0].tolist() == [5, 6, 1]


def test_literals_are_read_in_every_base() -> None:
    body = """
    mov.f32 %f0, 0f3FC00000; mov.f64 %d0, 0d3FE0000000000000; cvt.rn.f32.f64 %f1, %d0;
    add.f32 %f0, %f0, %f1; st.global.f32 [%rd0], %f0;
    mov.u32 %r1, 0x1fU; add.u32 %r1, %r1, 0b101; add.u32 %r1, %r1, -1; add.u32 %r1, %r1, 010;
    st.global.u32 [%rd0+4], %r1;
    """
    y = launch(entry(body), 1, 1, np.zeros(2, "u4"))[0]
    assert y.view("f4")[0] == 2.0
    assert y[1] == 31 + 5 - 1 + 8


def test_variables_are_initialised_with_numbers_and_addresses() -> None:
    before = """
    .global .align 4 .u32 table[4] = {1, 2, 0xff};
    .const .align 2 .b16 small[2] = {7, -1};
    .global .align 8 .u64 place = generic(table);
    """
    body = """
    mov.u64 %rd1, place; ld.global.u64 %rd2, [%rd1]; ld.u32 %r1, [%rd2+8];
    ld.const.s16 %r2, [small+2]; ld.global.u32 %r3, [table+12];
    st.global.v2.u32 [%rd0], {%r1, %r2}; st.global.u32 [%rd0+8], %r3;
    """
    y = launch(entry(body, before=before), 1, 1, np.ones(4, "u4"))[0]
    assert y[:3].tolist() == [255, 0xFFFFFFFF, 0]


FUNCTION = """
.func (.param .b32 out) twice(.param .b32 a)
{ .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.b32 %r0, [a]; setp.gt.s32 %p0, %r0, 3;
  @%p0 ret; add.s32 %r1, %r0, %r0; st.param.b32 [out], %r1; }
"""


def test_a_function_is_called_by_threads_that_leave_it_apart() -> None:
    body = """
    { .param .b32 given; .param .b32 got; st.param.b32 [given], %r0; st.param.b32 [got], 77;
      call.uni (got), twice, (given); ld.param.b32 %r1, [got]; }
    mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r1;
    """
    y = launch(entry(body, before=FUNCTION), 1, 6, np.zeros(6, "u4"))[0]
    assert y.tolist() == [0, 2, 4, 6, 77, 77]


def test_a_function_of_registers_is_called_twice() -> None:
    before = (
        ".func (.reg .b32 y) inc(.reg .b32 x) { .reg .b32 t; add.s32 t, x, 1; mov.b32 y, t; ret; }"
    )
    body = "call (%r1), inc, (%r0); call (%r1), inc, (%r1); mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r1;"
    assert launch(entry(body, before=before), 1, 3, np.zeros(3, "u4"))[0].tolist() == [2, 3, 4]


WRONG = {
    "a stray character": ("add.s32 %r1, %r1, #3;", FormatError, "line 11: a stray '#'"),
    "an unknown instruction": ("vadd.s32 %r1, %r1, 3;", UnsupportedError, "line 11: .*vadd.s32"),
    "an unknown form": ("add.rn.f8 %r1, %r1, %r2;", UnsupportedError, "line 11: .*add.rn.f8"),
    "an unknown matrix": (
        "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%rd0];",
        UnsupportedError,
        "line 11",
    ),
    "a label that is nowhere": ("bra NOWHERE;", FormatError, "line 11: .*NOWHERE"),
    "a variable that is nowhere": ("ld.shared.u32 %r1, [nothing];", FormatError, "nothing is not"),
    "too few operands": ("add.s32 %r1;", FormatError, "line 11: add.s32 has wrong operands"),
    "a register that is too narrow": ("mov.b64 %r1, %rd0;", FormatError, "%r1 has 32 bits"),
    "a register that is not there": ("mov.b32 %r64, %r1;", FormatError, "%r64 is not one of 64"),
    "a call of what is elsewhere": ("call (%r1), vprintf, (%rd0);", UnsupportedError, "vprintf"),
    "a directive": (".maxnreg2 5;", UnsupportedError, "line 11: .maxnreg2"),
    "an end that is missing": ("{ mov.b32 %r1, %r2;", FormatError, "ends in the middle"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_named_with_its_line(what: str) -> None:
    body, error, says = WRONG[what]
    with pytest.raises(error, match=says):
        Device().load(entry(body, 0)).kernel("k")


def test_a_function_that_calls_itself_is_refused() -> None:
    before = ".func f() { call f, (); ret; }"
    with pytest.raises(UnsupportedError, match="f calls itself"):
        Device().load(entry("call f, ();", before=before)).kernel("k")


def test_ptx_for_another_device_is_refused() -> None:
    with pytest.raises(WrongArchitecture, match="the PTX is for sm_90a, the device is sm_80"):
        Device().load(entry("", target="sm_90a"))


def test_a_variable_that_is_too_large_is_refused() -> None:
    with pytest.raises(FormatError, match="more than"):
        parse(entry("", before=".global .b8 big[99999999999];"))
