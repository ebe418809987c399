#include "tessera/launcher/signal_queue.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "tessera/base/error.h"

namespace tessera {

SignalQueue::SignalQueue(bool with_usr1) {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&ours, number);
  if (with_usr1) sigaddset(&ours, SIGUSR1);
  TESSERA_CHECK_EQ(::pthread_sigmask(SIG_BLOCK, &ours, &before_), 0);
  descriptor_ = ::signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
  TESSERA_CHECK(descriptor_ >= 0, "signalfd");
}

SignalQueue::~SignalQueue() {
  while (next()) {
  }
  ::close(descriptor_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalQueue::next() {
  signalfd_siginfo info;
  if (::read(descriptor_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

}  // namespace tessera
