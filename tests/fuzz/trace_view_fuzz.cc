// Any trace that can be read becomes valid JSON for the page and for Perfetto,
// a page that only its own script can leave, and tables whose rows all have
// their columns.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "insight/export/csv.h"
#include "insight/export/perfetto.h"
#include "insight/trace_view.h"
#include "insight/view_json.h"
#include "nlohmann/json.hpp"
#include "tracer/rank_traces.h"
#include "tracer/trace_file.h"
#include "viewer/page.h"

namespace castor {
namespace {

using Json = nlohmann::json;

Json Parsed(absl::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr,
                          /*allow_exceptions=*/false);
  CASTOR_CHECK(!json.is_discarded());
  return json;
}

void CheckPage(const std::string& data) {
  constexpr absl::string_view kBefore =
      "<script type=\"application/json\" id=\"castor-data\">";
  constexpr absl::string_view kAfter = "</script>";
  const Json views = Parsed(data);
  CASTOR_CHECK(views.at("views").is_array());
  const std::string page =
      PageWithData(std::string(kBefore) + std::string(kAfter), data);
  CASTOR_CHECK(page.find('<', kBefore.size()) == page.size() - kAfter.size());
  CASTOR_CHECK(Parsed(absl::string_view(page).substr(
                   kBefore.size(),
                   page.size() - kBefore.size() - kAfter.size())) == views);
}

// RFC 4180: the same number of cells in each row; quotes end; no cell begins
// with what a spreadsheet takes for a formula, but for numbers.
void CheckTable(const std::string& text) {
  int64_t columns = 0, cells = 1, rows = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == ',') ++cells;
    if (c != '\n') continue;
    CASTOR_CHECK(i > 0 && text[i - 1] == '\r');
    if (rows++ == 0) columns = cells;
    CASTOR_CHECK(cells == columns);
    cells = 1;
  }
  CASTOR_CHECK(!quoted && rows > 0 && cells == 1);
}

void CheckRanks(std::vector<TraceContents> ranks) {
  for (TraceContents& contents : ranks) MoveToCommonClock(&contents);
  const std::vector<TraceView> views = BuildRankViews(ranks, "fuzz");
  CASTOR_CHECK(views.size() == ranks.size());
  CheckPage(RanksPageJson(views));
  CheckPage(PageJson(views.front(), views.back()));
  std::string text;
  const auto append = [&](absl::string_view piece) {
    text.append(piece.data(), piece.size());
    return absl::OkStatus();
  };
  CASTOR_CHECK(PerfettoJson(views, append).ok());
  Parsed(text);
  for (const std::string& table : CsvTableNames()) {
    text.clear();
    CASTOR_CHECK(CsvTable(views.back(), table, append).ok());
    CheckTable(text);
  }
}

}  // namespace
}  // namespace castor

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto ranks = castor::ParseRanks(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  constexpr size_t kMostRanks = 8;  // more only takes longer
  if (ranks.ok() && ranks->size() <= kMostRanks) {
    castor::CheckRanks(*std::move(ranks));
  }
  return 0;
}
