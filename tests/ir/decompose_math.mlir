// RUN: lamina opt %s -p "decompose-math" | filecheck %s
// RUN: lamina opt %s -p 'decompose-math{keep="math.exp"}' | filecheck %s --check-prefix KEEP

// Constants come first, each once, though both functions use some of them; a large one is a
// scalar and a splat.
// CHECK-LABEL: tile.kernel @chain
// CHECK-NEXT:  ^bb0
// CHECK:         %[[LOW:.*]] = arith.constant dense<-1.040000e+02> : vector<16xf32>
// CHECK:         %[[SCALAR:.*]] = arith.constant {{.*}} : f32
// CHECK:         tile.splat %[[SCALAR]] : (f32) -> vector<16xf32>
// CHECK:         %x = tile.load
// CHECK-NEXT:    %[[ABOVE:.*]] = arith.maximumf %x, %[[LOW]] {tile.layout = "rows"} : vector<16xf32>
// CHECK:         arith.minimumf %[[ABOVE]]
// CHECK-COUNT-10: math.fma
// CHECK-NOT:     arith.constant
// CHECK:         %e = arith.mulf
// CHECK-NOT:     arith.constant
// CHECK:         math.sqrt %e
// CHECK-NEXT:    %r = arith.divf
// CHECK-NEXT:    tile.store %r

// KEEP: math.exp
// KEEP: math.sqrt
tile.kernel @chain attributes {symbols = [], grid = ["1"], access = ["read", "write"]} {
^bb0(%in: memref<16xf32>, %out: memref<16xf32>):
  %c0 = arith.constant 0 : index
  %x = tile.load %in[%c0] {shape = array<i64: 16>} : memref<16xf32> [index] -> vector<16xf32>
  %e = math.exp %x {tile.layout = "rows"} : vector<16xf32>
  %r = math.rsqrt %e : vector<16xf32>
  tile.store %r, %out[%c0] {shape = array<i64: 16>} : vector<16xf32>, memref<16xf32> [index]
  tile.return
}

// Half floats go through f32.
// CHECK-LABEL: tile.kernel @half
// CHECK:         %[[WIDE:.*]] = tile.cast %x{{.*}} : (f16) -> f32
// CHECK:         tile.compare
// CHECK:         %y = tile.cast %{{.*}} : (f32) -> f16
tile.kernel @half attributes {symbols = [], grid = ["1"], access = ["read", "write"]} {
^bb0(%in: memref<1xf16>, %out: memref<1xf16>):
  %c0 = arith.constant 0 : index
  %x = tile.load %in[%c0] {shape = array<i64: 1>} : memref<1xf16> [index] -> f16
  %y = math.tanh %x : f16
  tile.store %y, %out[%c0] {shape = array<i64: 1>} : f16, memref<1xf16> [index]
  tile.return
}
