#pragma once

// The files that one rank writes.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/stored_rows.h"
#include "tessera/storage/manifest.h"

namespace tessera {

struct RankFilesOptions {
  std::optional<std::string> prefix;
  bool optimizer = true;       // its state too
  bool copies = false;         // also what another rank writes
  bool adapters_only = false;  // leaves out what is frozen
  int rank = 0;
  int world = 1;
};

/// What a rank writes at one step. Made on the thread that trains; written on any.
class RankFiles {
 public:
  /// Takes views of the tensors, or, with `copy`, their values as they are now (on the host).
  RankFiles(const ParamTable& table, const OptimizerState& optimizer,
            const RankFilesOptions& options, bool copy);

  /// Writes into `folder`, piece by piece, and flushes. Returns what to say about them in the
  /// manifest. Throws CheckpointError.
  Manifest write(const std::filesystem::path& folder) const;

 private:
  struct File {
    std::string name;
    std::vector<StoredRow> rows;
    bool copies = false;
    bool state = false;
  };
  std::vector<File> files_;
};

}  // namespace tessera
