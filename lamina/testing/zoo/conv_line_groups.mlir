// Convolution of lines in two groups of two into three channels, three places three apart, uneven padding.
// Program (i, j, k): eight windows of line j, the channels of group k, of which a panel has room for four.
builtin.module {
  tile.kernel @conv_line_groups attributes {symbols = ["n0", "n1", "workers"], grid = ["ceildiv(n1 - 1, 8)", "n0", "2"], access = ["read", "read", "write"]} {
  ^bb0(%0: memref<?x?x4xf32>, %1: memref<2x3x2x4xf32>, %2: memref<?x6xf32>, %3: index, %4: index, %5: index):
    %6 = arith.constant 0 : index
    %7 = arith.constant 8 : index
    %8 = arith.constant 2 : index
    %9 = arith.constant -1 : index
    %10 = arith.addi %4, %9 : index
    %11 = arith.constant 1 : index
    %12 = arith.constant 3 : index
    %13 = arith.constant 4 : index
    %14 = arith.constant dense<0.000000e+00> : vector<8x1x4xf32>
    %15 = arith.constant 13 : index
    %16 = tile.program_id {dim = 1 : i64}
    %17 = tile.program_id {dim = 0 : i64}
    %18 = arith.muli %17, %7 : index
    %19 = arith.subi %18, %8 : index
    %20 = arith.muli %16, %10 : index
    %21 = arith.addi %20, %18 : index
    %22 = arith.addi %20, %10 : index
    %23 = tile.program_id {dim = 2 : i64}
    %24 = arith.divui %23, %11 : index
    %25 = arith.remui %23, %11 : index
    %26 = arith.muli %24, %12 : index
    %27 = arith.muli %25, %13 : index
    %28 = arith.addi %26, %27 : index
    %29 = arith.addi %26, %12 : index
    %30 = tile.compare %19, %6 {kind = "ge"} : (index, index) -> i1
    %31 = arith.addi %19, %15 : index
    %32 = tile.compare %31, %4 {kind = "lt"} : (index, index) -> i1
    %33 = arith.andi %30, %32 : i1
    %34 = scf.if %33 -> (vector<8x1x4xf32>) {
      %35 = scf.for %36 = %6 to %12 step %11 iter_args(%37 = %14) -> (vector<8x1x4xf32>) {
        %38 = arith.muli %36, %12 : index
        %39 = arith.addi %19, %38 : index
        %40 = arith.muli %24, %8 : index
        %41 = arith.addi %40, %6 : index
        %42 = tile.load %0[%16, %39, %41] {shape = array<i64: 1, 8, 2>, in_bounds = array<i64: 0, 1, 2>} : memref<?x?x4xf32>[index, index, index] -> vector<8x2xf32>
        %43 = tile.load %1[%23, %36, %6, %6] {shape = array<i64: 1, 1, 2, 4>, in_bounds = array<i64: 0, 1, 2, 3>} : memref<2x3x2x4xf32>[index, index, index, index] -> vector<1x1x2x4xf32>
        %44 = tile.reshape %43 : (vector<1x1x2x4xf32>) -> vector<1x2x4xf32>
        %45 = tile.dot %42, %44, %37 {contract = [[1 : i64, 1 : i64]]} : (vector<8x2xf32>, vector<1x2x4xf32>, vector<8x1x4xf32>) -> vector<8x1x4xf32>
        scf.yield %45 : vector<8x1x4xf32>
      }
      scf.yield %35 : vector<8x1x4xf32>
    } else {
      %46 = scf.for %47 = %6 to %12 step %11 iter_args(%48 = %14) -> (vector<8x1x4xf32>) {
        %49 = arith.muli %47, %12 : index
        %50 = arith.addi %19, %49 : index
        %51 = arith.muli %24, %8 : index
        %52 = arith.addi %51, %6 : index
        %53 = tile.load %0[%16, %50, %52] {shape = array<i64: 1, 8, 2>, in_bounds = array<i64: 0, 2>} : memref<?x?x4xf32>[index, index, index] -> vector<8x2xf32>
        %54 = tile.load %1[%23, %47, %6, %6] {shape = array<i64: 1, 1, 2, 4>, in_bounds = array<i64: 0, 1, 2, 3>} : memref<2x3x2x4xf32>[index, index, index, index] -> vector<1x1x2x4xf32>
        %55 = tile.reshape %54 : (vector<1x1x2x4xf32>) -> vector<1x2x4xf32>
        %56 = tile.dot %53, %55, %48 {contract = [[1 : i64, 1 : i64]]} : (vector<8x2xf32>, vector<1x2x4xf32>, vector<8x1x4xf32>) -> vector<8x1x4xf32>
        scf.yield %56 : vector<8x1x4xf32>
      }
      scf.yield %46 : vector<8x1x4xf32>
    }
    %57 = tile.reshape %34 : (vector<8x1x4xf32>) -> vector<8x4xf32>
    tile.store %57, %2[%21, %28] limit[%22, %29] {shape = array<i64: 8, 4>, unique} : vector<8x4xf32>, memref<?x6xf32>[index, index]
    tile.return
  }
}
