// RUN: lamina opt %s -p "choose-layouts{threads=64 fragments=true}" | filecheck %s

// Sums of products lie as matrix units have them; what they are made of is loaded side by side.
// CHECK-LABEL: tile.kernel @product
// CHECK:         tile.load %x{{.*}}#tile.layout<{{..}}64 : i64, 8 : i64{{..}}, {{..}}8 : i64, 1 : i64{{..}}>
// CHECK:         tile.dot{{.*}}tile.fragments = 64 : i64, tile.layout = {{.}}#tile.layout<{{..}}4 : i64, 2 : i64], {{.}}8 : i64, 32 : i64], {{.}}2 : i64, 8 : i64{{..}}
tile.kernel @product attributes {symbols = ["n", "workers"], grid = ["1"], access = ["read", "read", "write"]} {
^bb0(%x: memref<32x16xf16>, %w: memref<16x32xf16>, %y: memref<32x32xf32>, %n: index, %workers: index):
  %zero = arith.constant 0 : index
  %none = arith.constant dense<0.0> : vector<32x32xf32>
  %a = tile.load %x[%zero, %zero] {shape = array<i64: 32, 16>, in_bounds = array<i64: 0, 1>} : memref<32x16xf16>[index, index] -> vector<32x16xf16>
  %b = tile.load %w[%zero, %zero] {shape = array<i64: 16, 32>, in_bounds = array<i64: 0, 1>} : memref<16x32xf16>[index, index] -> vector<16x32xf16>
  %d = tile.dot %a, %b, %none {contract = [[1 : i64, 0 : i64]]} : (vector<32x16xf16>, vector<16x32xf16>, vector<32x32xf32>) -> vector<32x32xf32>
  tile.store %d, %y[%zero, %zero] {shape = array<i64: 32, 32>, in_bounds = array<i64: 0, 1>, unique} : vector<32x32xf32>, memref<32x32xf32>[index, index]
  tile.return
}

// What is broadcast lies in every thread that wants it; what is reduced stays where it was.
// CHECK-LABEL: tile.kernel @rows
// CHECK:         tile.load %x{{.*}}#tile.layout<{{..}}64 : i64, 1 : i64{{..}}, {{..}}>
// CHECK:         tile.reduce{{.*}}#tile.layout<{{..}}16 : i64, 0 : i64], {{.}}4 : i64, 1 : i64{{..}}, {{..}}>
// CHECK:         tile.broadcast{{.*}}#tile.layout<{{..}}64 : i64, 1 : i64{{..}}, {{..}}>
tile.kernel @rows attributes {symbols = ["n", "workers"], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<4x16xf32>, %y: memref<4x16xf32>, %n: index, %workers: index):
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero, %zero] {shape = array<i64: 4, 16>, in_bounds = array<i64: 0, 1>} : memref<4x16xf32>[index, index] -> vector<4x16xf32>
  %m = tile.reduce %a {kind = "max", dims = array<i64: 1>} : (vector<4x16xf32>) -> vector<4xf32>
  %b = tile.broadcast %m {dims = array<i64: 0>} : (vector<4xf32>) -> vector<4x16xf32>
  %c = arith.subf %a, %b : vector<4x16xf32>
  tile.store %c, %y[%zero, %zero] {shape = array<i64: 4, 16>, in_bounds = array<i64: 0, 1>, unique} : vector<4x16xf32>, memref<4x16xf32>[index, index]
  tile.return
}
