#include "tessera/data/text/skipped_log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

namespace {

[[noreturn]] void fail(const std::string& path) {
  throw ConfigError(path + ": cannot write: " + std::strerror(errno));
}

}  // namespace

SkippedLog::SkippedLog(std::string path)
    : path_(std::move(path)), temporary_(path_ + ".part" + std::to_string(::getpid())) {}

SkippedLog::~SkippedLog() {
  if (!begun_) return;
  out_.close();
  ::unlink(temporary_.c_str());
}

void SkippedLog::add(const DocumentFault& fault) {
  if (!begun_) {
    out_.open(temporary_, std::ios::binary | std::ios::trunc);
    if (!out_) fail(temporary_);
    begun_ = true;
  }
  nlohmann::ordered_json line = {{"file", fault.input}};
  if (fault.line > 0) line["line"] = fault.line;
  line["byte"] = fault.byte;
  line["reason"] = fault.why;
  out_ << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  if (!out_) fail(temporary_);
}

void SkippedLog::finish() {
  if (!begun_) {
    ::unlink(path_.c_str());
    return;
  }
  out_.close();
  if (!out_ || std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_);
  begun_ = false;
}

}  // namespace tessera
