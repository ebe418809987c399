#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// What the weights in `folder` are, by their content: SHA-256 in hexadecimal over the names,
/// types, shapes and bytes of all tensors, in the order of the names, so that files that are cut in
/// another way are the same. Of a checkpoint: over its manifest, which holds checksums of its
/// files. Reads every byte. Throws CheckpointError.
std::string weights_fingerprint(const std::filesystem::path& folder);

}  // namespace tessera
