#pragma once

// A process that ends by SIGKILL just before the n-th change of the file system that it makes.

#include <functional>

namespace tessera::test {

/// Runs `body` in a child process that is killed before its `n`-th (from 1) rename, unlink, rmdir,
/// mkdir or fsync. Returns whether that point was reached; false: `body` came to its end. A body
/// that ends otherwise fails the test.
bool killed_at(int n, const std::function<void()>& body);

}  // namespace tessera::test
