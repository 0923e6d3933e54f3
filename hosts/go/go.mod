module lean

go 1.23
