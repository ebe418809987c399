#pragma once

#include <signal.h>

#include <optional>

namespace tessera {

/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGCHLD (and SIGUSR1, if it is asked for) of this
/// thread do not interrupt: they wait
/// here to be read. Programs started meanwhile get them back as usual (see start).
class SignalQueue {
 public:
  explicit SignalQueue(bool with_usr1 = false);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  /// Readable when a signal waits.
  int descriptor() const { return descriptor_; }

  /// The next signal's number; none when nothing waits.
  std::optional<int> next();

 private:
  int descriptor_ = -1;
  sigset_t before_;
};

}  // namespace tessera
