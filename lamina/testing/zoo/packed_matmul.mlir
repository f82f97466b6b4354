// Rows times packed weights of 4 bits, dequantised once for all rows of a tile; 64 threads share it.
// Program (i, j): 32 columns and 16 rows; block after block of K, in the order of its partial sums.
builtin.module {
  tile.kernel @packed_matmul attributes {symbols = ["n0", "workers"], grid = ["1", "ceildiv(n0, 16)"], access = ["read", "read", "read", "read", "write"], schedule = #tile.schedule<{m = 16 : i64, n = 32 : i64, threads = 64 : i64}>, work = #tile.work<{bytes = "2304*n0 + 10880", float = "34816*n0"}>} {
  ^bb0(%0: memref<2x17x4x16x4xi8>, %1: memref<2x17x16xf16>, %2: memref<2x17x16xf16>, %3: memref<?x544xf32>, %4: memref<?x32xf32>, %5: index, %6: index):
    %7 = arith.constant 0 : index
    %8 = arith.constant 16 : index
    %9 = arith.constant 1 : index
    %10 = arith.constant 2 : index
    %11 = tile.scratch : memref<16x36xf32>
    %12 = tile.scratch : memref<2x33x16xf32>
    %13 = arith.constant dense<0.000000e+00> : vector<16x32xf32>
    %14 = arith.constant 9 : index
    %15 = arith.constant 8 : index
    %16 = arith.constant 32 : index
    %17 = arith.constant dense<15> : vector<2x1x4x16x4xi8>
    %18 = arith.constant dense<4> : vector<2x1x4x16x4xi8>
    %19 = arith.constant 4 : index
    %20 = tile.program_id {dim = 0 : i64}
    %21 = tile.program_id {dim = 1 : i64}
    %22 = arith.muli %21, %8 : index
    %23 = tile.iota : vector<16xindex>
    %24 = tile.splat %22 : (index) -> vector<16xindex>
    %25 = arith.addi %23, %24 : vector<16xindex>
    %26 = arith.subi %5, %9 : index
    %27 = tile.splat %26 : (index) -> vector<16xindex>
    %28 = arith.minsi %25, %27 : vector<16xindex>
    %29 = arith.muli %20, %10 : index
    %30 = arith.muli %7, %14 : index
    %31 = arith.minsi %30, %15 : index
    %32 = arith.addi %31, %7 : index
    %33 = arith.muli %32, %16 : index
    %34 = tile.load %3[%28, %33] {shape = array<i64: 16, 32>, in_bounds = array<i64: 0, 1>} : memref<?x544xf32>[vector<16xindex>, index] -> vector<16x32xf32>
    %35 = tile.load %0[%29, %32, %7, %7, %7] {shape = array<i64: 2, 1, 4, 16, 4>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<2x17x4x16x4xi8>[index, index, index, index, index] -> vector<2x1x4x16x4xi8>
    %36 = tile.load %1[%29, %32, %7] {shape = array<i64: 2, 1, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<2x1x16xf16>
    %37 = tile.load %2[%29, %32, %7] {shape = array<i64: 2, 1, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<2x1x16xf16>
    %38, %39, %40, %41, %42 = scf.for %43 = %7 to %14 step %9 iter_args(%44 = %13, %45 = %34, %46 = %35, %47 = %36, %48 = %37) -> (vector<16x32xf32>, vector<16x32xf32>, vector<2x1x4x16x4xi8>, vector<2x1x16xf16>, vector<2x1x16xf16>) {
      %49 = tile.compare %7, %43 {kind = "lt"} : (index, index) -> i1
      %50 = tile.select %49, %10, %9 : (i1, index, index) -> index
      %51, %52, %53, %54, %55 = scf.for %56 = %7 to %50 step %9 iter_args(%57 = %13, %58 = %45, %59 = %46, %60 = %47, %61 = %48) -> (vector<16x32xf32>, vector<16x32xf32>, vector<2x1x4x16x4xi8>, vector<2x1x16xf16>, vector<2x1x16xf16>) {
        tile.store %58, %11[%7, %7] {shape = array<i64: 16, 32>, in_bounds = array<i64: 0, 1>, unique} : vector<16x32xf32>, memref<16x36xf32>[index, index]
        %62 = arith.andi %59, %17 : vector<2x1x4x16x4xi8>
        %63 = arith.shrui %59, %18 : vector<2x1x4x16x4xi8>
        %64 = tile.reshape %62 : (vector<2x1x4x16x4xi8>) -> vector<2x1x4x1x16x4xi8>
        %65 = tile.reshape %63 : (vector<2x1x4x16x4xi8>) -> vector<2x1x4x1x16x4xi8>
        %66 = tile.join %64, %65 {dim = 3 : i64} : (vector<2x1x4x1x16x4xi8>, vector<2x1x4x1x16x4xi8>) -> vector<2x1x4x2x16x4xi8>
        %67 = tile.reshape %66 : (vector<2x1x4x2x16x4xi8>) -> vector<2x1x8x16x4xi8>
        %68 = tile.cast %67 {unsigned} : (vector<2x1x8x16x4xi8>) -> vector<2x1x8x16x4xf32>
        %69 = tile.transpose %68 {perm = array<i64: 0, 1, 2, 4, 3>} : (vector<2x1x8x16x4xf32>) -> vector<2x1x8x4x16xf32>
        %70 = tile.reshape %69 : (vector<2x1x8x4x16xf32>) -> vector<2x1x32x16xf32>
        %71 = tile.cast %60 : (vector<2x1x16xf16>) -> vector<2x1x16xf32>
        %72 = tile.broadcast %71 {dims = array<i64: 0, 1, 3>} : (vector<2x1x16xf32>) -> vector<2x1x32x16xf32>
        %73 = tile.cast %61 : (vector<2x1x16xf16>) -> vector<2x1x16xf32>
        %74 = tile.broadcast %73 {dims = array<i64: 0, 1, 3>} : (vector<2x1x16xf32>) -> vector<2x1x32x16xf32>
        %75 = math.fma %70, %72, %74 : vector<2x1x32x16xf32>
        %76 = tile.reshape %75 {tile.layout = [#tile.layout<[[8 : i64, 2 : i64], [8 : i64, 128 : i64]], [[2 : i64, 64 : i64], [4 : i64, 16 : i64], [2 : i64, 1 : i64]]>]} : (vector<2x1x32x16xf32>) -> vector<2x32x16xf32>
        tile.store %76, %12[%7, %7, %7] {shape = array<i64: 2, 32, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<2x32x16xf32>, memref<2x33x16xf32>[index, index, index]
        %77 = arith.addi %56, %9 : index
        %78 = tile.compare %77, %50 {kind = "lt"} : (index, index) -> i1
        %79 = arith.addi %43, %9 : index
        %80 = arith.minsi %79, %15 : index
        %81 = tile.select %78, %43, %80 : (i1, index, index) -> index
        %82 = tile.select %78, %77, %7 : (i1, index, index) -> index
        %83 = arith.muli %82, %14 : index
        %84 = arith.minsi %83, %15 : index
        %85 = arith.addi %84, %81 : index
        %86 = arith.muli %85, %16 : index
        %87 = tile.load %3[%28, %86] {shape = array<i64: 16, 32>, in_bounds = array<i64: 0, 1>} : memref<?x544xf32>[vector<16xindex>, index] -> vector<16x32xf32>
        %88 = tile.load %0[%29, %85, %7, %7, %7] {shape = array<i64: 2, 1, 4, 16, 4>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<2x17x4x16x4xi8>[index, index, index, index, index] -> vector<2x1x4x16x4xi8>
        %89 = tile.load %1[%29, %85, %7] {shape = array<i64: 2, 1, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<2x1x16xf16>
        %90 = tile.load %2[%29, %85, %7] {shape = array<i64: 2, 1, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x17x16xf16>[index, index, index] -> vector<2x1x16xf16>
        %91 = tile.reshape %57 : (vector<16x32xf32>) -> vector<16x2x16xf32>
        %92 = scf.for %93 = %7 to %16 step %19 iter_args(%94 = %91) -> (vector<16x2x16xf32>) {
          %95 = tile.load %11[%7, %93] {shape = array<i64: 16, 4>, in_bounds = array<i64: 0, 1>} : memref<16x36xf32>[index, index] -> vector<16x4xf32>
          %96 = tile.load %12[%7, %93, %7] {shape = array<i64: 2, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<2x33x16xf32>[index, index, index] -> vector<2x4x16xf32>
          %97 = tile.dot %95, %96, %94 {tile.layout = [#tile.layout<[[64 : i64, 4 : i64]], [[4 : i64, 1 : i64], [2 : i64, 256 : i64]]>], contract = [[1 : i64, 1 : i64]]} : (vector<16x4xf32>, vector<2x4x16xf32>, vector<16x2x16xf32>) -> vector<16x2x16xf32>
          scf.yield %97 : vector<16x2x16xf32>
        }
        %98 = tile.reshape %92 : (vector<16x2x16xf32>) -> vector<16x32xf32>
        scf.yield %98, %87, %88, %89, %90 : vector<16x32xf32>, vector<16x32xf32>, vector<2x1x4x16x4xi8>, vector<2x1x16xf16>, vector<2x1x16xf16>
      }
      %99 = arith.addf %44, %51 : vector<16x32xf32>
      scf.yield %99, %52, %53, %54, %55 : vector<16x32xf32>, vector<16x32xf32>, vector<2x1x4x16x4xi8>, vector<2x1x16xf16>, vector<2x1x16xf16>
    }
    %100 = arith.muli %20, %16 : index
    tile.store %38, %4[%22, %100] {shape = array<i64: 16, 32>, in_bounds = array<i64: 1>, unique} : vector<16x32xf32>, memref<?x32xf32>[index, index]
    tile.return
  }
}
