// RUN: lamina opt %s -p "choose-layouts{threads=64},lower-tiles{threads=64 subgroup=32}" | filecheck %s
// RUN: not lamina opt %s -p "choose-layouts{threads=64},lower-tiles{threads=64 subgroup=32 memory=4}" 2>&1 | filecheck %s --check-prefix SMALL

// Threads add up what they hold by shuffles in their subgroup, then through shared memory; all of
// them have the sum. What one of them loads is masked where the tile is ragged.
// CHECK-LABEL: simt.kernel @total
// CHECK-SAME:    threads = 64 : i64, subgroup = 32 : i64
// CHECK:         simt.memory : memref<2xi32, "workgroup">
// CHECK:         simt.load %{{.*}} mask
// CHECK:         simt.shuffle %{{.*}} {xor = 1 : i64}
// CHECK:         simt.shuffle %{{.*}} {xor = 16 : i64}
// CHECK:         simt.store %{{.*}} mask
// CHECK-NEXT:    simt.barrier
// CHECK-NEXT:    simt.load %{{.*}} {run = 2 : i64}
// CHECK:         tile.return

// SMALL: kernel total takes 8 bytes of shared memory, expected at most 4: choose smaller tiles or scratch
tile.kernel @total attributes {symbols = ["n", "workers"], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<1xf32>, %n: index, %workers: index):
  %zero = arith.constant 0 : index
  %a = tile.load %x[%zero] {shape = array<i64: 64>} : memref<?xf32>[index] -> vector<64xf32>
  %s = tile.reduce %a {kind = "add", dims = array<i64: 0>} : (vector<64xf32>) -> f32
  tile.store %s, %y[%zero] {shape = array<i64: 1>, in_bounds = array<i64: 0>, unique} : f32, memref<1xf32>[index]
  tile.return
}

// Integers are added up by a subgroup at once, whatever the order. What fails in any thread changes
// the error word, if nothing failed before.
// CHECK-LABEL: simt.kernel @count
// CHECK:         [[node:%\d+]] = simt.node {node = "/ids"}
// CHECK:         [[word:%\d+]] = simt.error_word : memref<1xi32>
// CHECK:         simt.subgroup_reduce %{{.*}} {kind = "add"} : (vector<1xi32>) -> vector<1xi32>
// CHECK-NOT:     simt.shuffle
// CHECK:         simt.atomic [[node]], [[word]][%{{.*}}] expected %{{.*}} : i32 mask %{{.*}} : i1 {kind = "compare_exchange"}
// CHECK:         tile.return
tile.kernel @count attributes {symbols = ["workers"], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<64xi32>, %y: memref<1xi32>, %workers: index):
  %zero = arith.constant 0 : index
  %few = arith.constant dense<9> : vector<64xi32>
  %a = tile.load %x[%zero] {shape = array<i64: 64>} : memref<64xi32>[index] -> vector<64xi32>
  %s = tile.reduce %a {kind = "add", dims = array<i64: 0>} : (vector<64xi32>) -> i32
  %ok = tile.compare %a, %few {kind = "lt"} : (vector<64xi32>, vector<64xi32>) -> vector<64xi1>
  tile.check %ok {node = "/ids"} : vector<64xi1>
  tile.store %s, %y[%zero] {shape = array<i64: 1>, in_bounds = array<i64: 0>, unique} : i32, memref<1xi32>[index]
  tile.return
}
