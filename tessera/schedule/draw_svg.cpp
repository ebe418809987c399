#include <algorithm>
#include <cstdio>

#include "tessera/schedule/draw.h"

namespace tessera {
namespace {

constexpr double kPlotWidth = 1100;
constexpr double kLeft = 70;
constexpr double kTop = 56;
constexpr double kRowHeight = 36;
constexpr double kBarHeight = 30;
constexpr double kNotesWidth = 170;
constexpr double kSmallestLabel = 11;  // narrower bars carry no number

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

// Forwards are blue, backwards green; later chunks are darker.
std::string fill(bool forward, int64_t chunk, int64_t chunks) {
  const double depth = chunks > 1 ? static_cast<double>(chunk) / (chunks - 1) : 0;
  char text[48];
  std::snprintf(text, sizeof text, "hsl(%d,%d%%,%.0f%%)", forward ? 212 : 145, forward ? 70 : 45,
                78 - 26 * depth);
  return text;
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "start") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(text) + "</text>\n";
}

class Timeline {
 public:
  Timeline(const PipelineSchedule& schedule, const Simulation& simulation)
      : schedule_(schedule), simulation_(simulation), scale_(kPlotWidth / simulation.makespan) {}

  std::string rows() const {
    std::string svg;
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) svg += row(rank);
    return svg;
  }

 private:
  std::string row(size_t rank) const {
    const double y = kTop + kRowHeight * static_cast<double>(rank);
    const double baseline = y + kBarHeight / 2 + 4;
    std::string svg = text_at(kLeft - 8, baseline, "rank " + std::to_string(rank), "end");
    svg += "<rect class=\"idle\" x=\"" + number(kLeft) + "\" y=\"" + number(y) + "\" width=\"" +
           number(kPlotWidth) + "\" height=\"" + number(kBarHeight) + "\"/>\n";
    for (size_t i = 0; i < schedule_.ranks[rank].size(); ++i) {
      const Action& a = schedule_.ranks[rank][i];
      const TimedAction& time = simulation_.ranks[rank].actions[i];
      if (a.kind == ActionKind::kOverlapForwardBackward) {
        svg += bar(time, y, kBarHeight / 2, a, backward_pass(a), false);
        svg += bar(time, y + kBarHeight / 2, kBarHeight / 2, a, forward_pass(a), true);
      } else if (is_compute(a)) {
        svg += bar(time, y, kBarHeight, a, forward_pass(a), has_forward(a));
      }
    }
    char notes[64];
    std::snprintf(notes, sizeof notes, "idle %.1f %%, live %lld",
                  100 * simulation_.idle_share(static_cast<int64_t>(rank)),
                  static_cast<long long>(simulation_.ranks[rank].peak_live));
    return svg + text_at(kLeft + kPlotWidth + 10, baseline, notes);
  }

  std::string bar(const TimedAction& time, double y, double height, const Action& action,
                  const Pass& pass, bool forward) const {
    const double x = kLeft + scale_ * time.start;
    const double width = scale_ * (time.end - time.start);
    std::string svg = "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" +
                      number(width) + "\" height=\"" + number(height) + "\" fill=\"" +
                      fill(forward, pass.chunk, schedule_.options.chunks) + "\"><title>" +
                      to_string(action) + ": " + number(time.start) + " to " + number(time.end) +
                      "</title></rect>\n";
    if (width >= kSmallestLabel) {
      svg += text_at(x + width / 2, y + height / 2 + 4, std::to_string(pass.micro_batch), "middle");
    }
    return svg;
  }

  const PipelineSchedule& schedule_;
  const Simulation& simulation_;
  double scale_;  // pixels a unit of time
};

std::string legend(int64_t chunks) {
  std::string svg;
  double x = kLeft;
  for (const bool forward : {true, false}) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      svg += "<rect x=\"" + number(x) + "\" y=\"30\" width=\"14\" height=\"14\" fill=\"" +
             fill(forward, chunk, chunks) + "\"/>\n";
      x += 16;
    }
    const std::string name = forward ? "forward" : "backward";
    svg +=
        text_at(x + 2, 41, chunks > 1 ? name + ", chunk 0 to " + std::to_string(chunks - 1) : name);
    x += chunks > 1 ? 170 : 80;
  }
  return svg;
}

}  // namespace

std::string schedule_svg(const PipelineSchedule& schedule, const Simulation& simulation,
                         const std::string& title) {
  const double width = kLeft + kPlotWidth + kNotesWidth;
  const double bottom = kTop + kRowHeight * static_cast<double>(schedule.ranks.size());
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) +
                    "\" height=\"" + number(bottom + 24) + "\" viewBox=\"0 0 " + number(width) +
                    " " + number(bottom + 24) + "\">\n";
  svg +=
      "<style>text{font:11px sans-serif;fill:#222}rect{stroke:#fff;stroke-width:.6}"
      ".idle{fill:#eee;stroke:none}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  svg += text_at(kLeft, 18, title);
  svg += legend(schedule.options.chunks);
  svg += Timeline(schedule, simulation).rows();
  svg += text_at(kLeft, bottom + 12, "0");
  svg += text_at(kLeft + kPlotWidth, bottom + 12, number(simulation.makespan), "end");
  return svg + "</svg>\n";
}

}  // namespace tessera
