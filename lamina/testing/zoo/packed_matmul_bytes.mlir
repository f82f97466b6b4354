// Rows in quants of 8 bits times packed weights of 4 bits: exact in blocks of 32, then scaled.
// Program (i, j): 32 columns and 16 rows; what matrix units take, a block of K at once.
builtin.module {
  tile.kernel @packed_matmul_bytes attributes {symbols = ["n0", "workers"], grid = ["1", "ceildiv(n0, 16)"], access = ["read", "read", "read", "read", "read", "read", "write"], schedule = #tile.schedule<{m = 16 : i64, n = 32 : i64, threads = 64 : i64}>, work = #tile.work<{bytes = "808*n0 + 10880", integer = "34816*n0"}>} {
  ^bb0(%0: memref<?x544xi8>, %1: memref<?x17xf32>, %2: memref<?x17xf32>, %3: memref<2x17x4x16x4xi8>, %4: memref<2x17x16xf16>, %5: memref<2x17x16xf16>, %6: memref<?x32xf32>, %7: index, %8: index):
    %9 = arith.constant 0 : index
    %10 = arith.constant 16 : index
    %11 = arith.constant 1 : index
    %12 = arith.constant 2 : index
    %13 = arith.constant dense<0.000000e+00> : vector<16x32xf32>
    %14 = arith.constant 9 : index
    %15 = arith.constant 8 : index
    %16 = arith.constant 32 : index
    %17 = arith.constant dense<15> : vector<2x1x4x16x4xi8>
    %18 = arith.constant dense<4> : vector<2x1x4x16x4xi8>
    %19 = arith.constant dense<0> : vector<16x32xi32>
    %20 = tile.program_id {dim = 0 : i64}
    %21 = tile.program_id {dim = 1 : i64}
    %22 = arith.muli %21, %10 : index
    %23 = tile.iota : vector<16xindex>
    %24 = tile.splat %22 : (index) -> vector<16xindex>
    %25 = arith.addi %23, %24 : vector<16xindex>
    %26 = arith.subi %7, %11 : index
    %27 = tile.splat %26 : (index) -> vector<16xindex>
    %28 = arith.minsi %25, %27 : vector<16xindex>
    %29 = arith.muli %20, %12 : index
    %30 = arith.muli %9, %14 : index
    %31 = arith.minsi %30, %15 : index
    %32 = arith.addi %31, %9 : index
    %33 = arith.muli %32, %16 : index
    %34 = tile.load %0[%28, %33] {shape = array<i64: 16, 32>, in_bounds = array<i64: 0, 1>} : memref<?x544xi8>[vector<16xindex>, index] -> vector<16x32xi8>
    %35 = tile.load %1[%28, %32] {shape = array<i64: 16, 1>, in_bounds = array<i64: 0, 1>} : memref<?x17xf32>[vector<16xindex>, index] -> vector<16x1xf32>
    %36 = tile.load %2[%28, %32] {shape = array<i64: 16, 1>, in_bounds = array<i64: 0, 1>} : memref<?x17xf32>[vector<16xindex>, index] -> vector<16x1xf32>
    %37 = tile.load %3[%29, %32, %9, %9, %9] {shape = array<i64: 2, 1, 4, 16, 4>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<2x17x4x16x4xi8>[index, index, index, index, index] -> vector<2x1x4x16x4xi8>
    %38 = tile.load %4[%29, %32, %9] {shape = array<i64: 2, 1, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<2x1x16xf16>
    %39 = tile.load %5[%29, %32, %9] {shape = array<i64: 2, 1, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<2x1x16xf16>
    %40, %41, %42, %43, %44, %45, %46 = scf.for %47 = %9 to %14 step %11 iter_args(%48 = %13, %49 = %34, %50 = %35, %51 = %36, %52 = %37, %53 = %38, %54 = %39) -> (vector<16x32xf32>, vector<16x32xi8>, vector<16x1xf32>, vector<16x1xf32>, vector<2x1x4x16x4xi8>, vector<2x1x16xf16>, vector<2x1x16xf16>) {
      %55 = tile.compare %9, %47 {kind = "lt"} : (index, index) -> i1
      %56 = tile.select %55, %12, %11 : (i1, index, index) -> index
      %57, %58, %59, %60, %61, %62, %63 = scf.for %64 = %9 to %56 step %11 iter_args(%65 = %13, %66 = %49, %67 = %50, %68 = %51, %69 = %52, %70 = %53, %71 = %54) -> (vector<16x32xf32>, vector<16x32xi8>, vector<16x1xf32>, vector<16x1xf32>, vector<2x1x4x16x4xi8>, vector<2x1x16xf16>, vector<2x1x16xf16>) {
        %72 = arith.addi %64, %11 : index
        %73 = tile.compare %72, %56 {kind = "lt"} : (index, index) -> i1
        %74 = arith.addi %47, %11 : index
        %75 = arith.minsi %74, %15 : index
        %76 = tile.select %73, %47, %75 : (i1, index, index) -> index
        %77 = tile.select %73, %72, %9 : (i1, index, index) -> index
        %78 = arith.muli %77, %14 : index
        %79 = arith.minsi %78, %15 : index
        %80 = arith.addi %79, %76 : index
        %81 = arith.muli %80, %16 : index
        %82 = tile.load %0[%28, %81] {shape = array<i64: 16, 32>, in_bounds = array<i64: 0, 1>} : memref<?x544xi8>[vector<16xindex>, index] -> vector<16x32xi8>
        %83 = tile.load %1[%28, %80] {shape = array<i64: 16, 1>, in_bounds = array<i64: 0, 1>} : memref<?x17xf32>[vector<16xindex>, index] -> vector<16x1xf32>
        %84 = tile.load %2[%28, %80] {shape = array<i64: 16, 1>, in_bounds = array<i64: 0, 1>} : memref<?x17xf32>[vector<16xindex>, index] -> vector<16x1xf32>
        %85 = tile.load %3[%29, %80, %9, %9, %9] {shape = array<i64: 2, 1, 4, 16, 4>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<2x17x4x16x4xi8>[index, index, index, index, index] -> vector<2x1x4x16x4xi8>
        %86 = tile.load %4[%29, %80, %9] {shape = array<i64: 2, 1, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<2x1x16xf16>
        %87 = tile.load %5[%29, %80, %9] {shape = array<i64: 2, 1, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<2x1x16xf16>
        %88 = arith.andi %69, %17 : vector<2x1x4x16x4xi8>
        %89 = arith.shrui %69, %18 : vector<2x1x4x16x4xi8>
        %90 = tile.reshape %88 : (vector<2x1x4x16x4xi8>) -> vector<2x1x4x1x16x4xi8>
        %91 = tile.reshape %89 : (vector<2x1x4x16x4xi8>) -> vector<2x1x4x1x16x4xi8>
        %92 = tile.join %90, %91 {dim = 3 : i64} : (vector<2x1x4x1x16x4xi8>, vector<2x1x4x1x16x4xi8>) -> vector<2x1x4x2x16x4xi8>
        %93 = tile.reshape %92 : (vector<2x1x4x2x16x4xi8>) -> vector<2x1x8x16x4xi8>
        %94 = tile.transpose %93 {perm = array<i64: 0, 1, 3, 2, 4>} : (vector<2x1x8x16x4xi8>) -> vector<2x1x16x8x4xi8>
        %95 = tile.reshape %94 : (vector<2x1x16x8x4xi8>) -> vector<2x1x16x32xi8>
        %96 = tile.reshape %95 : (vector<2x1x16x32xi8>) -> vector<32x32xi8>
        %97 = tile.reshape %70 : (vector<2x1x16xf16>) -> vector<32xf16>
        %98 = tile.cast %97 : (vector<32xf16>) -> vector<32xf32>
        %99 = tile.reshape %71 : (vector<2x1x16xf16>) -> vector<32xf16>
        %100 = tile.cast %99 : (vector<32xf16>) -> vector<32xf32>
        %101 = tile.broadcast %98 {dims = array<i64: 1>} : (vector<32xf32>) -> vector<16x32xf32>
        %102 = tile.dot %66, %96, %19 {tile.direct, contract = [[1 : i64, 1 : i64]], unsigned = array<i64: 0, 1>} : (vector<16x32xi8>, vector<32x32xi8>, vector<16x32xi32>) -> vector<16x32xi32>
        %103 = tile.reshape %67 : (vector<16x1xf32>) -> vector<16xf32>
        %104 = tile.broadcast %103 {dims = array<i64: 0>} : (vector<16xf32>) -> vector<16x32xf32>
        %105 = arith.mulf %101, %104 : vector<16x32xf32>
        %106 = tile.cast %102 : (vector<16x32xi32>) -> vector<16x32xf32>
        %107 = math.fma %106, %105, %65 : vector<16x32xf32>
        %108 = tile.reshape %68 : (vector<16x1xf32>) -> vector<16xf32>
        %109 = tile.broadcast %108 {dims = array<i64: 0>} : (vector<16xf32>) -> vector<16x32xf32>
        %110 = tile.broadcast %100 {dims = array<i64: 1>} : (vector<32xf32>) -> vector<16x32xf32>
        %111 = math.fma %110, %109, %107 : vector<16x32xf32>
        scf.yield %111, %82, %83, %84, %85, %86, %87 : vector<16x32xf32>, vector<16x32xi8>, vector<16x1xf32>, vector<16x1xf32>, vector<2x1x4x16x4xi8>, vector<2x1x16xf16>, vector<2x1x16xf16>
      }
      %112 = arith.addf %48, %57 : vector<16x32xf32>
      scf.yield %112, %58, %59, %60, %61, %62, %63 : vector<16x32xf32>, vector<16x32xi8>, vector<16x1xf32>, vector<16x1xf32>, vector<2x1x4x16x4xi8>, vector<2x1x16xf16>, vector<2x1x16xf16>
    }
    %113 = arith.muli %20, %16 : index
    tile.store %40, %6[%22, %113] {shape = array<i64: 16, 32>, in_bounds = array<i64: 1>, unique} : vector<16x32xf32>, memref<?x32xf32>[index, index]
    tile.return
  }
}
