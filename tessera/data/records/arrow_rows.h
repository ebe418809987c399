#pragma once

#include <cstddef>
#include <cstdint>

// The one function of libtessera-arrow.so, which is built where the C++ libraries of Apache Arrow
// are (tools/setup.sh --arrow) and loaded when a parquet or arrow file is read.

extern "C" {

/// A row as a JSON object and its number from 0; returns 0 when no more are wanted.
using TesseraArrowRow = int (*)(void* context, const char* json, size_t size, int64_t row);

/// Hands out every row of a file in order. `kind`: parquet, or arrow (a file or a stream of IPC).
/// Returns 0, or 1 with what is wrong in `error`, cut at `error_size`.
int tessera_read_arrow_rows(const char* kind, const char* path, TesseraArrowRow on_row,
                            void* context, char* error, size_t error_size);
}
