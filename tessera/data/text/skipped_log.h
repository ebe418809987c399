#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/data/text/document_source.h"

namespace tessera {

/// The places that were left out, one JSON object a line: file, line (absent where the whole file
/// is the document), byte, reason. Written beside the target under a temporary name; finish() puts
/// it in place, or removes an older file if nothing was left out. Destroyed before, it leaves
/// nothing.
class SkippedLog {
 public:
  explicit SkippedLog(std::string path);
  ~SkippedLog();
  SkippedLog(const SkippedLog&) = delete;
  SkippedLog& operator=(const SkippedLog&) = delete;

  /// Throws ConfigError on a full disk.
  void add(const DocumentFault& fault);
  void finish();

 private:
  std::string path_;
  std::string temporary_;
  std::ofstream out_;
  bool begun_ = false;
};

}  // namespace tessera
