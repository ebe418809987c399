#include "tessera/launcher/worker_environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr int kDefaultPort = 8118;
constexpr int64_t kMost = std::numeric_limits<int>::max();
constexpr int64_t kMostJobs = int64_t{1} << 48;
constexpr int64_t kFirstSlurmPort = 20000;  // + job id modulo the number of ports
constexpr int64_t kSlurmPorts = 10000;
constexpr int64_t kMostRestarts = 1 << 20;
constexpr const char* kUnnamedRun = "none";  // torchrun's id where nobody gave one

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const std::string& name) const {
    std::optional<std::string> value = environment_(name);
    if (value && value->empty()) return std::nullopt;
    return value;
  }

  std::optional<int64_t> number(const std::string& name, int64_t most = kMost) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    int64_t result = 0;
    const char* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, result);
    if (error != std::errc() || stop != end || result < 0 || result > most) {
      throw ConfigError("environment variable " + name + "=" + *value +
                        " must be a number from 0 to " + std::to_string(most));
    }
    return result;
  }

  int64_t needed(const std::string& name, const std::string& with) const {
    const std::optional<int64_t> value = number(name);
    if (!value) throw ConfigError(with + " is set, but not " + name);
    return *value;
  }

 private:
  const Environment& environment_;
};

bool all_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// "01-04,7": numbers and ranges that do not fall, with commas between.
bool is_number_list(const std::string& text) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const size_t dash = item.find('-');
    const std::string first = item.substr(0, dash);
    const std::string last = dash == std::string::npos ? first : item.substr(dash + 1);
    if (!all_digits(first) || !all_digits(last)) return false;
    if (last.size() < first.size() || (last.size() == first.size() && last < first)) return false;
    begin = end + 1;
  }
  return true;
}

// "rack[0-1]node[01-04,7]-ib,other" -> "rack0node01-ib": each bracket gives its first number.
// Throws ConfigError that names the variable for a text that is no host list.
std::string first_host(const std::string& variable, const std::string& list) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError("environment variable " + variable + "=" + list + ": " + why +
                      "; MASTER_ADDR=HOST overrides it");
  };
  std::string host;
  bool first = true;
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == ']') refuse("] without [");
    if (c == ',') {
      first = false;
    } else if (c == '[') {
      const size_t close = list.find(']', i);
      if (close == std::string::npos) refuse("[ without ]");
      const std::string inside = list.substr(i + 1, close - i - 1);
      if (!is_number_list(inside)) refuse("brackets hold numbers and ranges, as [01-04,7]");
      if (first) host += inside.substr(0, inside.find_first_not_of("0123456789"));
      i = close;
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_') {
      if (first) host += c;
    } else {
      refuse("a host name holds letters, digits, - . and _, and there are commas between");
    }
  }
  if (host.empty()) refuse("the first host has no name");
  return host;
}

// "2(x3),1" and node 3 -> 1: the tasks of one node; none when the text does not tell.
std::optional<int64_t> tasks_of_node(const std::string& list, int64_t node) {
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const char* stop = list.data() + end;
    int64_t tasks = 0;
    int64_t nodes = 1;
    const auto read = std::from_chars(list.data() + begin, stop, tasks);
    if (read.ec != std::errc() || tasks < 1) return std::nullopt;
    if (read.ptr != stop) {
      if (stop - read.ptr < 4 || read.ptr[0] != '(' || read.ptr[1] != 'x') return std::nullopt;
      const auto times = std::from_chars(read.ptr + 2, stop, nodes);
      if (times.ec != std::errc() || times.ptr + 1 != stop || *times.ptr != ')') {
        return std::nullopt;
      }
    }
    if (node < nodes) return tasks;
    node -= nodes;
    begin = end + 1;
  }
  return std::nullopt;
}

void read_master(const Reader& reader, WorkerEnvironment& worker) {
  if (const auto address = reader.text("MASTER_ADDR")) worker.master_addr = *address;
  if (const auto port = reader.number("MASTER_PORT")) {
    if (*port < 1 || *port > 65535) throw ConfigError("MASTER_PORT must be 1 to 65535");
    worker.master_port = static_cast<int>(*port);
    if (reader.text("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") {
      worker.master_port += *port < 65535 ? 1 : -1;  // torchrun's own store listens there
    }
  }
}

WorkerEnvironment from_torchrun(const Reader& reader) {
  WorkerEnvironment worker;
  worker.source = "RANK, WORLD_SIZE";
  worker.rank = reader.needed("RANK", "WORLD_SIZE");
  worker.world = reader.needed("WORLD_SIZE", "RANK");
  worker.local_rank = reader.number("LOCAL_RANK").value_or(0);
  worker.local_world = reader.number("LOCAL_WORLD_SIZE").value_or(0);
  const std::optional<std::string> job = reader.text("TESSERA_JOB_ID");
  worker.job_id = job ? *job : reader.text("TORCHELASTIC_RUN_ID").value_or("");
  if (job) {
    worker.generation = reader.number("TESSERA_GENERATION").value_or(0);
  } else if (!worker.job_id.empty() && worker.job_id != kUnnamedRun) {
    const auto restarts = reader.number("TORCHELASTIC_RESTART_COUNT", kMostRestarts);
    if (restarts) worker.generation = *restarts + 1;
  }
  return worker;
}

WorkerEnvironment from_slurm(const Reader& reader) {
  WorkerEnvironment worker;
  worker.source = "SLURM_PROCID, SLURM_STEP_NUM_TASKS";
  worker.rank = reader.needed("SLURM_PROCID", "SLURM_STEP_ID");
  const std::optional<int64_t> tasks = reader.number("SLURM_STEP_NUM_TASKS");
  worker.world = tasks ? *tasks : reader.needed("SLURM_NTASKS", "SLURM_STEP_ID");
  worker.local_rank = reader.number("SLURM_LOCALID").value_or(0);
  const std::optional<int64_t> of_node =
      tasks_of_node(reader.text("SLURM_STEP_TASKS_PER_NODE").value_or(""),
                    reader.number("SLURM_NODEID").value_or(0));
  worker.local_world = of_node ? *of_node : reader.number("SLURM_NTASKS_PER_NODE").value_or(0);
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (reader.text("MASTER_ADDR")) break;  // read_master() takes that one
    if (const auto list = reader.text(name)) {
      worker.master_addr = first_host(name, *list);
      break;
    }
  }
  const int64_t job = reader.number("SLURM_JOB_ID", kMostJobs).value_or(0);
  const int64_t step = reader.number("SLURM_STEP_ID").value_or(0);
  worker.master_port = static_cast<int>(kFirstSlurmPort + (job + step) % kSlurmPorts);
  worker.job_id = std::to_string(job) + "." + std::to_string(step);
  // Set when Slurm has put the job into its queue again.
  const auto restarts = reader.number("SLURM_RESTART_COUNT", kMostRestarts);
  if (job > 0) worker.generation = restarts.value_or(0) + 1;
  return worker;
}

// The names that a kind of mpirun gives to these.
struct MpiNames {
  const char* program;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
  const char* job;
};

constexpr std::array<MpiNames, 2> kMpis = {
    {{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
     {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"}}};

WorkerEnvironment from_mpi(const Reader& reader, const MpiNames& names) {
  WorkerEnvironment worker;
  worker.source = std::string(names.rank) + ", " + names.world;
  worker.rank = reader.needed(names.rank, names.world);
  worker.world = reader.needed(names.world, names.rank);
  worker.local_rank = reader.number(names.local_rank).value_or(0);
  worker.local_world = reader.number(names.local_world).value_or(0);
  worker.master_port = kDefaultPort;
  worker.job_id = reader.text(names.job).value_or("");
  if (!reader.text("MASTER_ADDR") && worker.local_world != worker.world && worker.world > 1) {
    throw ConfigError(std::string(names.program) +
                      " does not say where rank 0 is: mpirun -x MASTER_ADDR=HOST -x "
                      "MASTER_PORT=PORT (or -genv MASTER_ADDR HOST)");
  }
  return worker;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

std::optional<WorkerEnvironment> read_worker_environment(const Environment& environment) {
  const Reader reader(environment);
  WorkerEnvironment worker;
  const auto both = [&](const char* a, const char* b) { return reader.text(a) && reader.text(b); };
  const auto any = [&](const char* a, const char* b) { return reader.text(a) || reader.text(b); };
  const auto mpi = std::ranges::find_if(
      kMpis, [&](const MpiNames& names) { return any(names.rank, names.world); });
  if (both("RANK", "WORLD_SIZE")) {
    worker = from_torchrun(reader);
  } else if (both("SLURM_STEP_ID", "SLURM_PROCID")) {
    // Only inside a step: the batch script itself also has SLURM_PROCID. A script may well export
    // a WORLD_SIZE around it.
    worker = from_slurm(reader);
  } else if (mpi != kMpis.end()) {
    worker = from_mpi(reader, *mpi);
  } else if (any("RANK", "WORLD_SIZE")) {
    worker = from_torchrun(reader);  // says which of them is missing
  } else {
    return std::nullopt;
  }
  read_master(reader, worker);
  if (worker.world < 1 || worker.rank >= worker.world) {
    throw ConfigError(worker.source + ": rank " + std::to_string(worker.rank) + " of " +
                      std::to_string(worker.world) + " does not exist");
  }
  return worker;
}

}  // namespace tessera
