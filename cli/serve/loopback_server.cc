#include "cli/serve/loopback_server.h"

#include <httplib.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace castor::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kAddress[] = "127.0.0.1";
// Connections that wait for a thread, with us and then with the system.
constexpr size_t kMaxWaiting = 16;
constexpr int kMaxWaitingOutside = 64;

// A connection for one request and its answer. Both have a time by which they
// must be over, however steadily bytes drip; `stop` becomes readable when the
// server stops.
class BoundedStream : public httplib::Stream {
 public:
  BoundedStream(int socket, int stop, const ServerOptions& options)
      : socket_(socket), stop_(stop), options_(options) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  socket_t socket() const override { return socket_; }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = kAddress;
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip = kAddress;
    port = 0;
  }

  ssize_t read(char* data, size_t size) override {
    if (next_ == end_) {
      if (received_ >= LoopbackServer::kMaxRequestBytes) return -1;
      if (!WaitFor(POLLIN, begun_ + options_.request_limit)) return -1;
      const ssize_t count = recv(socket_, buffer_.data(), buffer_.size(), 0);
      if (count <= 0) return count;
      next_ = 0;
      end_ = static_cast<size_t>(count);
      received_ += count;
    }
    const size_t count = std::min(size, end_ - next_);
    std::memcpy(data, buffer_.data() + next_, count);
    next_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* data, size_t size) override {
    if (!WaitFor(POLLOUT, begun_ + options_.answer_limit)) return -1;
    return send(socket_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // What a client still sends is not read by us, but closing a socket with
  // unread bytes would throw away the answer on its way.
  void Finish() {
    shutdown(socket_, SHUT_WR);
    const Clock::time_point until = Clock::now() + std::chrono::seconds(1);
    while (WaitFor(POLLIN, until) &&
           recv(socket_, buffer_.data(), buffer_.size(), 0) > 0) {
    }
  }

 private:
  bool WaitFor(short event, Clock::time_point until) {
    pollfd fds[2] = {{socket_, event, 0}, {stop_, POLLIN, 0}};
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - Clock::now());
      if (left.count() <= 0) return false;
      const int ready = poll(fds, 2, static_cast<int>(left.count()));
      if (ready < 0 && errno == EINTR) continue;
      return ready > 0 && fds[1].revents == 0;
    }
  }

  const int socket_;
  const int stop_;
  const ServerOptions& options_;
  const Clock::time_point begun_ = Clock::now();
  std::array<char, 2048> buffer_;
  size_t next_ = 0, end_ = 0;
  int64_t received_ = 0;
};

// A fixed number of threads and a bounded line before them.
class Workers : public httplib::TaskQueue {
 public:
  Workers() {
    for (int i = 0; i < LoopbackServer::kThreads; ++i) {
      threads_.emplace_back([this] { Work(); });
    }
  }
  ~Workers() override { Join(); }

  // Called by the thread that accepts; while it waits here, connections wait
  // in the system's line.
  void enqueue(std::function<void()> task) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.size() < kMaxWaiting; });
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  void shutdown() override { Join(); }

 private:
  void Join() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  void Work() {
    while (true) {
      std::function<void()> task;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      changed_.notify_all();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  bool ended_ = false;                       // guarded by mutex_
  std::vector<std::thread> threads_;
};

void SetReply(const HttpReply& reply, httplib::Response& response) {
  response.status = reply.status;
  response.set_header("Cache-Control", "no-store");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("X-Frame-Options", "DENY");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cross-Origin-Resource-Policy", "same-origin");
  response.set_header("Cross-Origin-Opener-Policy", "same-origin");
  response.set_header(
      "Content-Security-Policy",
      reply.policy.empty()
          ? "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
          : reply.policy);
  if (reply.status == 405) response.set_header("Allow", "GET");
  const auto body = reply.body;
  if (body == nullptr || body->empty()) return;
  response.set_content_provider(
      body->size(), reply.content_type,
      [body](size_t offset, size_t length, httplib::DataSink& sink) {
        // In pieces: the library asks anew after each whether it is stopping.
        constexpr size_t kPiece = 1 << 20;
        return sink.write(body->data() + offset, std::min(length, kPiece));
      });
}

}  // namespace

// cpp-httplib's own server reads a request without a bound on its size or,
// where a client drips, on its time. This one hands it a stream that has both.
class LoopbackServer::Impl : public httplib::Server {
 public:
  static std::unique_ptr<Impl> Make(const ServerOptions& options,
                                    std::map<std::string, HttpHandler> paths) {
    // Its constructor ignores SIGPIPE for the whole process, which we need not:
    // nothing is written here without MSG_NOSIGNAL.
    struct sigaction before;
    sigaction(SIGPIPE, nullptr, &before);
    std::unique_ptr<Impl> impl(new Impl(options, std::move(paths)));
    sigaction(SIGPIPE, &before, nullptr);
    return impl;
  }
  ~Impl() override {
    if (thread_.joinable()) {
      const uint64_t one = 1;
      while (::write(stop_, &one, sizeof(one)) < 0 && errno == EINTR) {
      }
      stop();
      thread_.join();
    }
    if (stop_ >= 0) close(stop_);
  }

  // The port; -1: errno says why not.
  int Bind(int port) {
    errno = 0;
    if (port == 0) return bind_to_any_port(kAddress);
    return bind_to_port(kAddress, port) ? port : -1;
  }

  absl::Status Serve(int port) {
    for (const char* name : {"127.0.0.1", "localhost"}) {
      hosts_.push_back(absl::StrCat(name, ":", port));
      if (port == 80) hosts_.push_back(name);
    }
    // The library's own bound is 5, beyond which a client tries again only
    // after a second.
    ::listen(svr_sock_, kMaxWaitingOutside);
    stop_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_ < 0) {
      return absl::InternalError(
          absl::StrCat("cannot serve: eventfd: ", std::strerror(errno)));
    }
    try {
      auto workers = std::make_unique<Workers>();
      new_task_queue = [queue = workers.get()] { return queue; };
      thread_ = std::thread([this] { listen_after_bind(); });
      workers.release();  // the thread's now
    } catch (const std::system_error& error) {
      return absl::InternalError(
          absl::StrCat("cannot serve: no thread: ", error.what()));
    }
    // Before that, stop() does nothing.
    while (!is_running()) std::this_thread::yield();
    return absl::OkStatus();
  }

 private:
  Impl(const ServerOptions& options, std::map<std::string, HttpHandler> paths)
      : options_(options), paths_(std::move(paths)) {
    // Without SO_REUSEPORT, with which the library would share a taken port.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          SetReply(Answer(request), response);
          return HandlerResponse::Handled;
        });
    set_exception_handler([](const httplib::Request&,
                             httplib::Response& response, std::exception_ptr) {
      SetReply(TextReply(500, "out of memory\n"), response);
    });
    // Of what the library answers by itself: requests that it cannot parse.
    set_error_handler(
        Handler([](const httplib::Request&, httplib::Response& response) {
          if (response.content_length_ == 0) {
            SetReply(TextReply(response.status, "bad request\n"), response);
          }
        }));
  }

  bool process_and_close_socket(socket_t socket) override {
    bool ok;
    {
      BoundedStream stream(socket, stop_, options_);
      bool closed = true;
      ok = process_request(stream, /*close_connection=*/true, closed,
                           [](httplib::Request& request) {
                             // What the library would act on by itself: parts,
                             // compression (brotli at its slowest), bodies.
                             const std::string host =
                                 request.get_header_value_count("Host") == 1
                                     ? request.get_header_value("Host")
                                     : "";
                             request.headers.clear();
                             request.ranges.clear();
                             request.headers.emplace("Host", host);
                           });
      if (ok) stream.Finish();
    }
    close(socket);
    return ok;
  }

  HttpReply Answer(const httplib::Request& request) const {
    std::string host = request.get_header_value("Host");
    for (char& c : host) c = static_cast<char>(std::tolower(c & 0xff));
    if (std::find(hosts_.begin(), hosts_.end(), host) == hosts_.end()) {
      return TextReply(403, absl::StrCat("ask for ", hosts_[0], "\n"));
    }
    if (request.method != "GET") return TextReply(405, "GET only\n");
    const auto found = paths_.find(request.path);
    if (found == paths_.end()) return TextReply(404, "no such page\n");
    HttpQuery query;
    for (const auto& [name, value] : request.params) {
      query.emplace(name, value);
    }
    return found->second(query);
  }

  const ServerOptions options_;
  const std::map<std::string, HttpHandler> paths_;
  std::vector<std::string> hosts_;  // that a request may name
  int stop_ = -1;
  std::thread thread_;
};

LoopbackServer::LoopbackServer() = default;
LoopbackServer::~LoopbackServer() = default;

absl::StatusOr<std::unique_ptr<LoopbackServer>> LoopbackServer::Start(
    const ServerOptions& options, std::map<std::string, HttpHandler> paths) {
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "port ", options.port, ": expected 0 (any free one) to 65535"));
  }
  std::unique_ptr<LoopbackServer> server(new LoopbackServer());
  server->impl_ = Impl::Make(options, std::move(paths));
  server->port_ = server->impl_->Bind(options.port);
  int error = errno;
  if (server->port_ < 0 && options.any_port_will_do) {
    server->port_ = server->impl_->Bind(0);
    error = errno;
  }
  if (server->port_ < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("port ", options.port, " of ", kAddress, " cannot be had",
                     error != 0 ? absl::StrCat(": ", std::strerror(error)) : "",
                     "; choose another, or 0 for any free one"));
  }
  if (const absl::Status status = server->impl_->Serve(server->port_);
      !status.ok()) {
    return status;
  }
  return server;
}

std::string LoopbackServer::url() const {
  return absl::StrCat("http://", kAddress, ":", port_, "/");
}

}  // namespace castor::cli
