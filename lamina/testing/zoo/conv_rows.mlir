// 3x3 convolution of 6 into 20 channels, strides 2 and 1, uneven padding, bias and relu.
// Program (i, j, k): four windows along a row j of an image, two panels of 16 output channels. A program whose
// windows are all inside takes the loop that checks nothing.
builtin.module {
  tile.kernel @conv_rows attributes {symbols = ["n0", "n1", "n2", "workers"], grid = ["ceildiv(n2, 4)", "floordiv(n1 - 1, 2)*n0 + n0", "1"], access = ["read", "read", "read", "write"]} {
  ^bb0(%0: memref<?x?x?x6xf32>, %1: memref<2x3x3x6x16xf32>, %2: memref<20xf32>, %3: memref<?x20xf32>, %4: index, %5: index, %6: index, %7: index):
    %8 = arith.constant 0 : index
    %9 = arith.constant -1 : index
    %10 = arith.addi %5, %9 : index
    %11 = arith.constant 2 : index
    %12 = arith.divui %10, %11 : index
    %13 = arith.constant 1 : index
    %14 = arith.addi %12, %13 : index
    %15 = arith.constant 4 : index
    %16 = arith.constant 20 : index
    %17 = arith.constant 32 : index
    %18 = arith.constant dense<0.000000e+00> : vector<4x2x16xf32>
    %19 = arith.constant 5 : index
    %20 = arith.constant 3 : index
    %21 = arith.constant dense<0.000000e+00> : vector<4x32xf32>
    %22 = tile.program_id {dim = 1 : i64}
    %23 = arith.remui %22, %14 : index
    %24 = arith.divui %22, %14 : index
    %25 = tile.program_id {dim = 0 : i64}
    %26 = arith.muli %25, %15 : index
    %27 = arith.muli %23, %11 : index
    %28 = arith.subi %27, %13 : index
    %29 = arith.subi %26, %11 : index
    %30 = arith.muli %22, %6 : index
    %31 = arith.addi %30, %26 : index
    %32 = arith.addi %30, %6 : index
    %33 = tile.program_id {dim = 2 : i64}
    %34 = arith.muli %8, %16 : index
    %35 = arith.muli %33, %17 : index
    %36 = arith.muli %33, %11 : index
    %37 = tile.compare %28, %8 {kind = "ge"} : (index, index) -> i1
    %38 = arith.addi %28, %11 : index
    %39 = tile.compare %38, %5 {kind = "lt"} : (index, index) -> i1
    %40 = tile.compare %29, %8 {kind = "ge"} : (index, index) -> i1
    %41 = arith.addi %29, %19 : index
    %42 = tile.compare %41, %6 {kind = "lt"} : (index, index) -> i1
    %43 = arith.andi %37, %39 : i1
    %44 = arith.andi %43, %40 : i1
    %45 = arith.andi %44, %42 : i1
    %46 = scf.if %45 -> (vector<4x2x16xf32>) {
      %47 = scf.for %48 = %8 to %20 step %13 iter_args(%49 = %18) -> (vector<4x2x16xf32>) {
        %50 = scf.for %51 = %8 to %20 step %13 iter_args(%52 = %49) -> (vector<4x2x16xf32>) {
          %53 = arith.addi %28, %48 : index
          %54 = arith.addi %29, %51 : index
          %55 = tile.load %0[%24, %53, %54, %8] {shape = array<i64: 1, 1, 4, 6>, in_bounds = array<i64: 0, 1, 2, 3>} : memref<?x?x?x6xf32>[index, index, index, index] -> vector<4x6xf32>
          %56 = tile.load %1[%36, %48, %51, %8, %8] {shape = array<i64: 2, 1, 1, 6, 16>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<2x3x3x6x16xf32>[index, index, index, index, index] -> vector<2x1x1x6x16xf32>
          %57 = tile.reshape %56 : (vector<2x1x1x6x16xf32>) -> vector<2x6x16xf32>
          %58 = tile.dot %55, %57, %52 {contract = [[1 : i64, 1 : i64]]} : (vector<4x6xf32>, vector<2x6x16xf32>, vector<4x2x16xf32>) -> vector<4x2x16xf32>
          scf.yield %58 : vector<4x2x16xf32>
        }
        scf.yield %50 : vector<4x2x16xf32>
      }
      scf.yield %47 : vector<4x2x16xf32>
    } else {
      %59 = scf.for %60 = %8 to %20 step %13 iter_args(%61 = %18) -> (vector<4x2x16xf32>) {
        %62 = scf.for %63 = %8 to %20 step %13 iter_args(%64 = %61) -> (vector<4x2x16xf32>) {
          %65 = arith.addi %28, %60 : index
          %66 = arith.addi %29, %63 : index
          %67 = tile.load %0[%24, %65, %66, %8] {shape = array<i64: 1, 1, 4, 6>, in_bounds = array<i64: 0, 3>} : memref<?x?x?x6xf32>[index, index, index, index] -> vector<4x6xf32>
          %68 = tile.load %1[%36, %60, %63, %8, %8] {shape = array<i64: 2, 1, 1, 6, 16>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<2x3x3x6x16xf32>[index, index, index, index, index] -> vector<2x1x1x6x16xf32>
          %69 = tile.reshape %68 : (vector<2x1x1x6x16xf32>) -> vector<2x6x16xf32>
          %70 = tile.dot %67, %69, %64 {contract = [[1 : i64, 1 : i64]]} : (vector<4x6xf32>, vector<2x6x16xf32>, vector<4x2x16xf32>) -> vector<4x2x16xf32>
          scf.yield %70 : vector<4x2x16xf32>
        }
        scf.yield %62 : vector<4x2x16xf32>
      }
      scf.yield %59 : vector<4x2x16xf32>
    }
    %71 = tile.reshape %46 : (vector<4x2x16xf32>) -> vector<4x32xf32>
    %72 = tile.load %2[%35] {shape = array<i64: 32>} : memref<20xf32>[index] -> vector<32xf32>
    %73 = tile.broadcast %72 {dims = array<i64: 1>} : (vector<32xf32>) -> vector<4x32xf32>
    %74 = arith.addf %71, %73 : vector<4x32xf32>
    %75 = arith.maximumf %74, %21 : vector<4x32xf32>
    tile.store %75, %3[%31, %35] limit[%32] {shape = array<i64: 4, 32>, limit_dims = array<i64: 0>, unique} : vector<4x32xf32>, memref<?x20xf32>[index, index]
    tile.return
  }
}
