module example.org/qanat

go 1.19
