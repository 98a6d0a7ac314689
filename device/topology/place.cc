#include "device/topology/place.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace castor {
namespace {

constexpr char kFirstLine[] = "castor place 1";
// More than any machine has; a range is not to fill memory.
constexpr int kMaxNumber = 1 << 20;

absl::Status Bad(absl::string_view what, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "a rank's place cannot be read: ", what, " \"", text.substr(0, 80),
      "\"; do all ranks run the same version of castor?"));
}

bool ReadNumber(absl::string_view text, int* number) {
  return absl::SimpleAtoi(text, number) && *number >= 0 && *number < kMaxNumber;
}

// A name must stay one word of the text.
std::string Word(std::string name) {
  for (char& c : name) {
    if (c <= ' ') c = '?';
  }
  return name.empty() ? "?" : name;
}

absl::Status ReadLine(absl::string_view line, Place* place) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  const absl::string_view key = words[0];
  if (key == "host" && words.size() == 2) {
    place->host = std::string(words[1]);
  } else if (key == "machine" && words.size() == 4 &&
             ReadNumber(words[2], &place->machine_processors) &&
             ReadNumber(words[3], &place->allowed_processors)) {
    place->machine = std::string(words[1]);
  } else if (key == "core" && words.size() == 4) {
    PlaceCore core;
    if (!ReadNumber(words[1], &core.core) ||
        !ReadNumber(words[2], &core.node)) {
      return Bad("core", line);
    }
    CASTOR_ASSIGN_OR_RETURN(core.processors, ParseProcessors(words[3]));
    const bool ascending =
        place->cores.empty() || place->cores.back().core < core.core;
    if (core.processors.empty() || !ascending) return Bad("core", line);
    place->cores.push_back(std::move(core));
  } else if (key == "node" && words.size() == 3) {
    PlaceNode node;
    if (!ReadNumber(words[1], &node.node) ||
        !absl::SimpleAtoi(words[2], &node.memory_bytes) ||
        node.memory_bytes < 0) {
      return Bad("node", line);
    }
    place->nodes.push_back(node);
  } else if (key == "memory" && words.size() == 3) {
    MemoryLimit limit{.id = std::string(words[1])};
    if (!absl::SimpleAtoi(words[2], &limit.bytes) || limit.bytes <= 0) {
      return Bad("memory", line);
    }
    place->memory.push_back(std::move(limit));
  } else {
    return Bad("line", line);
  }
  return absl::OkStatus();
}

}  // namespace

std::string FormatProcessors(absl::Span<const int> processors) {
  std::string text;
  for (size_t i = 0; i < processors.size();) {
    size_t end = i + 1;
    while (end < processors.size() &&
           processors[end] == processors[end - 1] + 1) {
      ++end;
    }
    absl::StrAppend(&text, text.empty() ? "" : ",", processors[i]);
    if (end - i > 1) absl::StrAppend(&text, "-", processors[end - 1]);
    i = end;
  }
  return text;
}

absl::StatusOr<ProcessorSet> ParseProcessors(absl::string_view text) {
  ProcessorSet processors;
  if (text.empty()) return processors;
  for (absl::string_view range : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
    int first = 0, last = 0;
    if (ends.size() > 2 || !ReadNumber(ends.front(), &first) ||
        !ReadNumber(ends.back(), &last) || last < first ||
        (!processors.empty() && processors.back() >= first)) {
      return Bad("processors", text);
    }
    for (int i = first; i <= last; ++i) processors.push_back(i);
  }
  return processors;
}

ProcessorSet Place::processors() const {
  ProcessorSet all;
  for (const PlaceCore& core : cores) {
    all.insert(all.end(), core.processors.begin(), core.processors.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::string PlaceText(const Place& place) {
  std::string text =
      absl::StrCat(kFirstLine, "\nhost ", Word(place.host), "\nmachine ",
                   Word(place.machine), " ", place.machine_processors, " ",
                   place.allowed_processors, "\n");
  for (const PlaceCore& core : place.cores) {
    absl::StrAppend(&text, "core ", core.core, " ", core.node, " ",
                    FormatProcessors(core.processors), "\n");
  }
  for (const PlaceNode& node : place.nodes) {
    absl::StrAppend(&text, "node ", node.node, " ", node.memory_bytes, "\n");
  }
  for (const MemoryLimit& limit : place.memory) {
    absl::StrAppend(&text, "memory ", Word(limit.id), " ", limit.bytes, "\n");
  }
  return text;
}

absl::StatusOr<Place> ParsePlace(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() < 2 || lines.front() != kFirstLine ||
      !lines.back().empty()) {
    return Bad("text", lines.front());
  }
  Place place;
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    CASTOR_RETURN_IF_ERROR(ReadLine(lines[i], &place));
  }
  if (place.host.empty() || place.machine.empty() || place.cores.empty() ||
      place.memory.empty()) {
    return Bad("text", "something is missing");
  }
  return place;
}

}  // namespace castor
