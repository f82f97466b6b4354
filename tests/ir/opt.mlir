// RUN: lamina opt %s | filecheck %s
// RUN: lamina opt --print-op-generic %s | filecheck %s --check-prefix GENERIC
// RUN: not lamina opt -p no-such-pass %s 2>&1 | filecheck %s --check-prefix UNKNOWN

// CHECK:   %y = arith.addf %x, %x : f32
// GENERIC: %y = "arith.addf"(%x, %x) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
// UNKNOWN: error: there is no pass 'no-such-pass'
%x = arith.constant 1.0 : f32
%y = arith.addf %x, %x : f32
