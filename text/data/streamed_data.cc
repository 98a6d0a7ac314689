#include "text/data/streamed_data.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/annotate.h"
#include "base/check.h"
#include "base/enough_memory.h"
#include "base/philox.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "runtime/data/sample_order.h"
#include "text/data/json_line.h"
#include "text/data/stream_bookmark.h"

namespace castor {
namespace {

// Up to this size all of a file is read to know whether it has changed.
constexpr int64_t kReadWholeBytes = int64_t{64} << 20;
// How many parts of a larger file are read, and the bytes of each.
constexpr int64_t kParts = 256;
constexpr int64_t kPartBytes = int64_t{1} << 14;
// The next window is read while less than this share of one is waiting.
constexpr int64_t kReadAheadShare = 4;
// A source's share of all samples is counted in such parts.
constexpr double kShareUnits = 1e9;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Checksum {
 public:
  Checksum() : state_(XXH3_createState()) {
    CASTOR_CHECK(state_ != nullptr);
    XXH3_64bits_reset(state_);
  }
  ~Checksum() { XXH3_freeState(state_); }
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void Add(const void* data, size_t size) {
    XXH3_64bits_update(state_, data, size);
  }
  void Add(uint64_t value) { Add(&value, sizeof(value)); }
  uint64_t value() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* const state_;
};

// Adds what the file holds: all of it, or parts from end to end.
absl::Status AddContent(const std::string& path, int64_t size_bytes,
                        Checksum* sum) {
  const absl::StatusOr<RegularFile> file = OpenRegularFile(path);
  if (!file.ok()) {
    return absl::Status(
        file.status().code(),
        absl::StrCat("file \"", path, "\" ", file.status().message()));
  }
  const bool whole = size_bytes <= kReadWholeBytes;
  const int64_t part = whole ? int64_t{1} << 20 : kPartBytes;
  const int64_t stride = whole ? part : (size_bytes - part) / (kParts - 1);
  std::vector<char> bytes(static_cast<size_t>(part));
  absl::Status status;
  for (int64_t at = 0; at < size_bytes && status.ok(); at += stride) {
    const ssize_t n = pread(file->fd, bytes.data(), bytes.size(), at);
    if (n <= 0) {
      status = absl::DataLossError(
          absl::StrCat("file \"", path, "\" cannot be read"));
    } else {
      sum->Add(bytes.data(), static_cast<size_t>(n));
    }
  }
  close(file->fd);
  return status;
}

// Adds all that the samples of a file follow from.
absl::Status AddFile(const StreamedFile& file, int64_t vocabulary,
                     Checksum* sum) {
  sum->Add(static_cast<uint64_t>(file.stamp.size_bytes));
  sum->Add(static_cast<uint64_t>(file.separator));
  if (file.tokens != nullptr) {
    // How the file is read shows in its tokens.
    std::vector<int32_t> first(
        static_cast<size_t>(std::min<int64_t>(file.tokens->size(), 1024)));
    CASTOR_RETURN_IF_ERROR(file.tokens->Read(
        0, static_cast<int64_t>(first.size()), vocabulary, first.data()));
    sum->Add(static_cast<uint64_t>(file.tokens->size()));
    sum->Add(first.data(), first.size() * sizeof(first[0]));
  } else {
    const TokenizeOptions& options = file.tokenize;
    sum->Add(static_cast<uint64_t>(options.kind));
    sum->Add(options.encoding != nullptr ? KeyOf(*options.encoding) : 0);
    sum->Add(kJsonLineRules);
    for (const auto& [known, name] : options.keys.names()) {
      sum->Add(known.data(), known.size());
      sum->Add(name.data(), name.size());
    }
    sum->Add(options.examples != nullptr ? KeyOf(*options.examples) : 0);
  }
  return AddContent(file.path, file.stamp.size_bytes, sum);
}

std::string NamesOfFiles(const std::vector<StreamedFile>& files) {
  return absl::StrCat(
      "\"", files[0].path, "\"",
      files.size() > 1 ? absl::StrCat(" and ", files.size() - 1, " more") : "");
}

struct Window {
  StreamBookmark begin, end;
  SampleWindow samples;

  int64_t first() const { return begin.position; }
  int64_t last() const { return begin.position + samples.size(); }
};

class StreamedData : public StreamedSet {
 public:
  static absl::StatusOr<std::unique_ptr<StreamedData>> Create(
      StreamedDataRequest request);
  ~StreamedData() override { Stop(); }

  int64_t sequence_length() const override { return request_.length; }
  absl::Status FillBatch(int64_t first_position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override;
  absl::StatusOr<std::string> Check(int64_t, int64_t) const override {
    return identity_;
  }
  absl::StatusOr<LabelCount> CountLabels() const override {
    CASTOR_ASSIGN_OR_RETURN(const SampleCounts counts, FirstCounts());
    LabelCount labels = counts.labels;
    labels.is_part = true;
    return labels;
  }
  absl::StatusOr<SampleLengths> CountTokens() const override {
    CASTOR_ASSIGN_OR_RETURN(const SampleCounts counts, FirstCounts());
    return counts.lengths;
  }
  absl::Status Await(int64_t end) override { return AwaitEnd(end); }
  std::string BookmarkAt(int64_t position) const override;
  absl::Status GoOn(absl::string_view bookmark, int64_t position,
                    bool changed) override;
  int64_t TakeWaitedNs() override { return state_->waited_ns.exchange(0); }
  std::vector<std::string> TakeNotes() override;

 private:
  using WindowPointer = std::shared_ptr<const Window>;

  // The state that the thread and the caller share.
  struct State {
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::deque<WindowPointer> windows;  // the first one is used
    int64_t end = 0;                    // of what has been read
    int64_t used_end = 0;               // of the window that is used
    int64_t wanted = 0;                 // must be read
    absl::Status status;                // why no more is read
    std::vector<std::string> notes;
    std::atomic<bool> stop{false};
    std::atomic<int64_t> waited_ns{0};
  };

  explicit StreamedData(StreamedDataRequest request)
      : request_(std::move(request)), state_(std::make_unique<State>()) {}

  absl::Status Begin(const StreamBookmark& bookmark);
  void Stop();
  void Run();
  absl::StatusOr<std::unique_ptr<Window>> ReadWindow(ThreadPool& pool);
  size_t TakeTurn();
  void EndPass(size_t source);
  void Note(std::string line);
  std::vector<SampleStream> MakeStreams();
  absl::Status AwaitEnd(int64_t end) const;
  absl::StatusOr<WindowPointer> WindowOf(int64_t position) const;
  absl::StatusOr<SampleCounts> FirstCounts() const;
  absl::Status CheckBookmark(const StreamBookmark& mark, int64_t position,
                             bool changed) const;

  const StreamedDataRequest request_;
  std::string identity_;
  std::vector<int64_t> shares_;
  StreamBookmark start_;  // what was begun with
  const std::unique_ptr<State> state_;

  // The thread's own, while it runs.
  std::vector<SampleStream> streams_;
  StreamBookmark next_;
  int64_t last_values_ = 0;  // of the window before
  std::thread thread_;
};

std::vector<SampleStream> StreamedData::MakeStreams() {
  std::vector<SampleStream> streams;
  streams.reserve(request_.sources.size());
  const auto n = static_cast<int>(request_.sources.size());
  for (int i = 0; i < n; ++i) {
    streams.emplace_back(
        request_.sources[static_cast<size_t>(i)].files,
        StreamOptions{
            .length = request_.length,
            .vocabulary = request_.vocabulary,
            .shuffle = request_.shuffle,
            .seed = i == 0 ? request_.seed
                           : MixKey(request_.seed, static_cast<uint64_t>(i)),
            // Many sources have few pieces each.
            .pieces = std::clamp(16 / n, 1, 2 * request_.threads)},
        [this](std::string line) { Note(std::move(line)); });
  }
  return streams;
}

absl::StatusOr<std::unique_ptr<StreamedData>> StreamedData::Create(
    StreamedDataRequest request) {
  CASTOR_CHECK(!request.sources.empty() && request.window >= 1 &&
               request.threads >= 1 && request.length >= 1);
  std::unique_ptr<StreamedData> data(new StreamedData(std::move(request)));
  const StreamedDataRequest& of = data->request_;
  Checksum sum;
  int64_t files = 0, bytes = 0;
  for (const StreamedSource& source : of.sources) {
    CASTOR_CHECK(!source.files.empty());
    sum.Add(static_cast<uint64_t>(source.files.size()));
    sum.Add(&source.weight, sizeof(source.weight));
    for (const StreamedFile& file : source.files) {
      CASTOR_RETURN_IF_ERROR(AddFile(file, of.vocabulary, &sum));
      ++files;
      bytes += file.stamp.size_bytes;
    }
  }
  data->identity_ = absl::StrCat(
      "a stream of ", files, files == 1 ? " file, " : " files, ", bytes,
      " bytes, ",
      of.shuffle ? absl::StrCat("shuffled by ", of.window, ", ") : "",
      "checksum ", absl::Hex(sum.value()));
  std::vector<double> estimates;
  if (of.sources.size() > 1) {
    std::vector<SampleStream> streams = data->MakeStreams();
    for (size_t i = 0; i < streams.size(); ++i) {
      CASTOR_ASSIGN_OR_RETURN(const double samples,
                              streams[i].EstimateSamples());
      estimates.push_back(of.sources[i].weight * samples);
    }
  } else {
    estimates = {1};
  }
  const double most = *std::max_element(estimates.begin(), estimates.end());
  for (const double each : estimates) {
    data->shares_.push_back(
        most > 0 ? std::max<int64_t>(1, std::llround(each / most * kShareUnits))
                 : 1);
  }
  data->start_.sources.resize(of.sources.size());
  CASTOR_RETURN_IF_ERROR(data->Begin(data->start_));
  return data;
}

// Starts the thread.
absl::Status StreamedData::Begin(const StreamBookmark& bookmark) {
  streams_ = MakeStreams();
  next_ = bookmark;
  start_ = bookmark;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (bookmark.sources[i].place == StreamPlace()) continue;
    CASTOR_RETURN_IF_ERROR(streams_[i].GoTo(bookmark.sources[i].place));
  }
  State& state = *state_;
  state.windows.clear();
  state.end = state.used_end = state.wanted = bookmark.position;
  state.status = absl::OkStatus();
  state.stop = false;
  CASTOR_ASSIGN_OR_RETURN(
      thread_, StartThread("the reader of streamed data", [this] { Run(); }));
  return absl::OkStatus();
}

void StreamedData::Stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  thread_.join();
}

void StreamedData::Note(std::string line) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->notes.push_back(absl::StrCat(request_.key, ": ", line));
}

std::vector<std::string> StreamedData::TakeNotes() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return std::exchange(state_->notes, {});
}

void StreamedData::Run() {
  State& state = *state_;
  ThreadPool pool(request_.threads);
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(state.mutex);
      state.changed.wait(lock, [&] {
        return state.stop || state.end < state.wanted ||
               (state.end - state.used_end) * kReadAheadShare < request_.window;
      });
      if (state.stop) return;
    }
    absl::StatusOr<std::unique_ptr<Window>> window =
        IfMemoryAllows(absl::StrCat("a window of ", request_.window,
                                    " samples (data.shuffle_window)"),
                       [&] { return ReadWindow(pool); });
    {
      const std::lock_guard<std::mutex> lock(state.mutex);
      if (state.stop) return;
      if (window.ok()) {
        state.windows.push_back(*std::move(window));
        state.end = state.windows.back()->last();
      } else {
        state.status = Annotate(request_.key, window.status());
      }
    }
    state.changed.notify_all();
    if (!window.ok()) return;
  }
}

// The source that the next sample is of: it has waited longest for its share.
size_t StreamedData::TakeTurn() {
  if (streams_.size() == 1) return 0;
  int64_t sum = 0;
  size_t turn = 0;
  for (size_t i = 0; i < shares_.size(); ++i) {
    sum += shares_[i];
    next_.sources[i].credit += shares_[i];
    if (next_.sources[i].credit > next_.sources[turn].credit) turn = i;
  }
  next_.sources[turn].credit -= sum;
  return turn;
}

void StreamedData::EndPass(size_t source) {
  StreamBookmark::Source& of = next_.sources[source];
  const int64_t pass = streams_[source].place().pass;
  const SampleCounts counts = std::exchange(of.counts, {});
  if (pass > 1) return;
  const LabelCount& labels = counts.labels;
  const SampleLengths& lengths = counts.lengths;
  Note(absl::StrCat(
      NamesOfFiles(streams_[source].files()),
      " read through once: ", lengths.samples, " samples, ", lengths.tokens,
      " tokens (", labels.labels, " learned)",
      lengths.cut > 0
          ? absl::StrCat(", ", lengths.cut,
                         " cut to data.sequence_length (the longest has ",
                         lengths.longest, " tokens)")
          : "",
      labels.unlabelled > 0
          ? absl::StrCat(", ", labels.unlabelled, " with nothing to learn")
          : ""));
}

absl::StatusOr<std::unique_ptr<Window>> StreamedData::ReadWindow(
    ThreadPool& pool) {
  auto window = std::make_unique<Window>(Window{
      .begin = next_, .end = {}, .samples = SampleWindow(request_.length)});
  SampleWindow& samples = window->samples;
  // As many values as last time, and a tenth more.
  if (last_values_ > 0) {
    samples.Reserve(request_.window, last_values_ + last_values_ / 10);
  }
  std::optional<size_t> turn;
  while (samples.size() < request_.window && !state_->stop) {
    if (!turn.has_value()) turn = TakeTurn();
    CASTOR_ASSIGN_OR_RETURN(const bool more,
                            streams_[*turn].Next(pool, &samples));
    if (more) {
      next_.sources[*turn].counts.Add(samples.last());
      turn.reset();
      continue;
    }
    EndPass(*turn);
    if (streams_.size() == 1 && samples.size() > 0) break;
  }
  last_values_ = samples.num_values();
  next_.position += samples.size();
  ++next_.window;
  for (size_t i = 0; i < streams_.size(); ++i) {
    next_.sources[i].place = streams_[i].place();
  }
  window->end = next_;
  return window;
}

// Waits for the window that has the position, and lets go of those before.
absl::StatusOr<StreamedData::WindowPointer> StreamedData::WindowOf(
    int64_t position) const {
  CASTOR_RETURN_IF_ERROR(AwaitEnd(position + 1));
  State& state = *state_;
  const std::lock_guard<std::mutex> lock(state.mutex);
  while (state.windows.front()->last() <= position) state.windows.pop_front();
  const WindowPointer window = state.windows.front();
  CASTOR_CHECK(position >= window->first());
  if (state.used_end != window->last()) {
    state.used_end = window->last();
    state.changed.notify_all();
  }
  return window;
}

absl::Status StreamedData::AwaitEnd(int64_t end) const {
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  const auto is_there = [&] { return end <= state.end || !state.status.ok(); };
  state.wanted = std::max(state.wanted, end);
  if (!is_there()) {
    const int64_t begin = NowNs();
    state.changed.notify_all();
    state.changed.wait(lock, is_there);
    state.waited_ns += NowNs() - begin;
  }
  return end <= state.end ? absl::OkStatus() : state.status;
}

absl::Status StreamedData::FillBatch(int64_t first_position, int64_t batch,
                                     int32_t* tokens, int32_t* targets) const {
  const int64_t t = request_.length;
  for (int64_t b = 0; b < batch; ++b) {
    CASTOR_ASSIGN_OR_RETURN(const WindowPointer window,
                            WindowOf(first_position + b));
    const int64_t n = window->samples.size();
    const SampleOrder order = {
        .num_samples = n, .shuffle = request_.shuffle, .seed = request_.seed};
    const int64_t place = first_position + b - window->first();
    window->samples.Fill(order.At(window->begin.window * n + place),
                         tokens + b * t, targets + b * t);
  }
  return absl::OkStatus();
}

absl::StatusOr<SampleCounts> StreamedData::FirstCounts() const {
  CASTOR_RETURN_IF_ERROR(AwaitEnd(start_.position + 1));
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->windows.front()->samples.counts();
}

std::string StreamedData::BookmarkAt(int64_t position) const {
  StreamBookmark mark = start_;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    // Only what has been used counts, so that it does not depend on how far
    // the thread has come.
    if (!state_->windows.empty() &&
        state_->windows.front()->last() <= state_->used_end) {
      const Window& used = *state_->windows.front();
      mark = position < used.last() ? used.begin : used.end;
    }
  }
  CASTOR_CHECK(mark.position <= position);
  for (size_t i = 0; i < mark.sources.size(); ++i) {
    mark.sources[i].files.clear();
    for (const StreamedFile& file : request_.sources[i].files) {
      mark.sources[i].files.push_back(file.stamp);
    }
  }
  return FormatBookmark(mark);
}

// Checks that the stream can go on from the bookmark.
absl::Status StreamedData::CheckBookmark(const StreamBookmark& mark,
                                         int64_t position, bool changed) const {
  if (mark.sources.size() != request_.sources.size()) {
    return absl::InvalidArgumentError(absl::StrCat("read ", mark.sources.size(),
                                                   " sources where there are ",
                                                   request_.sources.size()));
  }
  if (mark.position > position) {
    return absl::InvalidArgumentError("is from after where the run is");
  }
  if (changed) return absl::OkStatus();
  for (size_t i = 0; i < mark.sources.size(); ++i) {
    const std::vector<StreamedFile>& files = request_.sources[i].files;
    const std::vector<SourceStamp>& then = mark.sources[i].files;
    if (then.size() != files.size()) {
      return absl::InvalidArgumentError("has read other files");
    }
    for (size_t f = 0; f < files.size(); ++f) {
      // The content of a smaller file is part of the identity.
      if (files[f].stamp.size_bytes <= kReadWholeBytes ||
          files[f].stamp == then[f]) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "has read file \"", files[f].path,
          "\", which was written to since, by its time, and is too large to be "
          "read again: where it is the same all the same (a copy that did not "
          "keep its time), say --resume-changed"));
    }
  }
  return absl::OkStatus();
}

absl::Status StreamedData::GoOn(absl::string_view bookmark, int64_t position,
                                bool changed) {
  Stop();
  StreamBookmark beginning = {.position = position};
  beginning.sources.resize(request_.sources.size());
  absl::Status why =
      absl::InvalidArgumentError("was saved by a run that streamed nothing");
  if (!bookmark.empty()) {
    const absl::StatusOr<StreamBookmark> mark = ParseBookmark(bookmark);
    why = mark.status();
    if (why.ok()) why = CheckBookmark(*mark, position, changed);
    if (why.ok()) why = Begin(*mark);
    if (why.ok()) return why;
  }
  if (!changed) return Annotate(request_.key, why);
  Note(absl::StrCat("the stream begins anew, since the checkpoint ",
                    why.message()));
  return Begin(beginning);
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamedSet>> OpenStreamedData(
    StreamedDataRequest request) {
  return StreamedData::Create(std::move(request));
}

}  // namespace castor
