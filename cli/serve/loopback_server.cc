#include "cli/serve/loopback_server.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <thread>
#include <utility>  // Boost 1.74 uses std::exchange without including it.
#include <vector>

// These follow the header that they should include.
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "cli/serve/http_request.h"

namespace castor::cli {
namespace {

namespace asio = boost::asio;

using Clock = std::chrono::steady_clock;
using ErrorCode = boost::system::error_code;
using Tcp = asio::ip::tcp;
using WorkGuard = asio::executor_work_guard<asio::io_context::executor_type>;

// How long a client has to hang up after its answer. Closing a socket with
// unread bytes would throw away the answer on its way.
constexpr std::chrono::seconds kLinger{1};
// How long it takes until accepting is tried again where there are no
// descriptors, or no memory.
constexpr std::chrono::milliseconds kRetry{100};

struct Answer {
  std::string head;
  std::shared_ptr<const std::string> body;  // null: empty

  size_t size() const { return head.size() + (body ? body->size() : 0); }
};
using AnswerPtr = std::shared_ptr<const Answer>;

AnswerPtr MakeAnswer(const HttpReply& reply) {
  return std::make_shared<const Answer>(
      Answer{.head = ReplyHead(reply), .body = reply.body});
}

// One request and its answer:
//
//   kReading -> kComputing -> kWriting -> kLingering -> kClosed
//        \__________________/ a refusal computes nothing
//
// kClosed follows from each, by the client's doing or for want of room.
struct Connection {
  enum class State { kReading, kComputing, kWriting, kLingering, kClosed };

  explicit Connection(Tcp::socket s) : socket(std::move(s)) {}

  Tcp::socket socket;
  State state = State::kReading;
  bool is_guest = false;  // has shown the token
  Clock::time_point progress = Clock::now();
  Clock::time_point deadline;
  std::array<char, kMaxRequestBytes> request;
  size_t received = 0;
  AnswerPtr answer;
  size_t sent = 0;
};
using ConnectionPtr = std::shared_ptr<Connection>;
using State = Connection::State;

void CloseOnExec(int descriptor) {
  fcntl(descriptor, F_SETFD, fcntl(descriptor, F_GETFD) | FD_CLOEXEC);
}

}  // namespace

class LoopbackServer::Impl {
 public:
  explicit Impl(const ServerOptions& options) : options_(options) {}

  ~Impl() {
    io_.stop();
    jobs_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  // The port; 0: `error` says why not.
  int Bind(int port, ErrorCode& error) {
    const auto failed = [&] {
      ErrorCode ignored;
      acceptor_.close(ignored);
      return 0;
    };
    acceptor_.open(Tcp::v4(), error);
    if (error) return failed();
    CloseOnExec(acceptor_.native_handle());
    // Without this a port is not to be had for a minute after its last
    // connection. A port that somebody listens on is not shared.
    acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
    if (error) return failed();
    acceptor_.bind(
        {asio::ip::address_v4::loopback(), static_cast<uint16_t>(port)}, error);
    if (error) return failed();
    // The line of those who wait is as long as the system lets it be: a client
    // that finds no room tries again only after a second.
    acceptor_.listen(Tcp::acceptor::max_listen_connections, error);
    if (error) return failed();
    acceptor_.non_blocking(true, error);
    if (error) return failed();
    const Tcp::endpoint bound = acceptor_.local_endpoint(error);
    return error ? failed() : bound.port();
  }

  absl::Status Serve(std::unique_ptr<HttpSite> site) {
    site_ = std::move(site);
    const auto start = [this](std::function<void()> body) -> absl::Status {
      threads_.reserve(threads_.size() + 1);  // or a started one may be lost
      CASTOR_ASSIGN_OR_RETURN(
          std::thread thread,
          StartThread("the server of the page", std::move(body)));
      threads_.push_back(std::move(thread));
      return absl::OkStatus();
    };
    CASTOR_RETURN_IF_ERROR(start([this] { RunConnections(); }));
    for (int i = 0; i < kThreads; ++i) {
      CASTOR_RETURN_IF_ERROR(start([this] { jobs_.run(); }));
    }
    return absl::OkStatus();
  }

  const HttpSite& site() const { return *site_; }

 private:
  // All that follows but Compute is called by the first thread alone. What is
  // thrown, mostly for want of memory, does not end it: accepting goes on
  // later.
  void RunConnections() {
    while (!io_.stopped()) {
      try {
        if (!accepting_ && Clock::now() >= accept_at_) Accept();
        io_.run_one_until(NextDeadline());
        CloseOverdue();
      } catch (const std::exception&) {
        accept_at_ = Clock::now() + kRetry;
      }
    }
  }

  Clock::time_point NextDeadline() const {
    Clock::time_point next = Clock::now() + std::chrono::hours(1);
    if (!accepting_) next = std::min(next, accept_at_);
    for (const ConnectionPtr& c : connections_) {
      next = std::min(next, c->deadline);
    }
    return next;
  }

  void CloseOverdue() {
    const Clock::time_point now = Clock::now();
    for (auto at = connections_.begin(); at != connections_.end();) {
      const ConnectionPtr c = *at++;  // closing removes it
      if (c->deadline > now) continue;
      if (c->state == State::kReading && c->received > 0) {
        Refuse(c, 408, "the request did not arrive in time\n");
      } else {
        Close(c);
      }
    }
  }

  void Accept() {
    // Without descriptors accept() fails even where nobody waits to come in.
    acceptor_.async_wait(Tcp::acceptor::wait_read, [this](ErrorCode error) {
      accepting_ = false;
      Admit(error);
    });
    accepting_ = true;
  }

  // Accepts whoever waits; `error` is that of the wait.
  void Admit(ErrorCode error) {
    Tcp::socket socket(io_);
    if (!error) acceptor_.accept(socket, error);
    if (error == asio::error::would_block) return;  // gone already
    if (error) {
      // Mostly for want of descriptors: each connection that ends has one.
      accept_at_ = Clock::now() + kRetry;
      GiveWay(/*guests=*/false, 1);
      return;
    }
    GiveWay(/*guests=*/false, kMaxStrangers);
    CloseOnExec(socket.native_handle());
    const auto c = std::make_shared<Connection>(std::move(socket));
    c->deadline = c->progress + options_.request_limit;
    connections_.push_back(c);
    Read(c);
  }

  // Makes room for one more of a class that has room for `most`.
  void GiveWay(bool guests, int most) {
    int count = 0;
    ConnectionPtr oldest;
    for (const ConnectionPtr& c : connections_) {
      if (c->is_guest != guests) continue;
      ++count;
      if (oldest == nullptr || c->progress < oldest->progress) oldest = c;
    }
    if (count >= most) Close(oldest);
  }

  void Close(const ConnectionPtr& c) {
    ErrorCode ignored;
    // A reset, where an answer is broken off: the system would keep what it has
    // of it for a client that does not read, and who does would take it as
    // whole.
    if (c->state == State::kWriting) {
      c->socket.set_option(Tcp::socket::linger(true, 0), ignored);
    }
    c->state = State::kClosed;
    c->socket.close(ignored);
    connections_.remove(c);
  }

  void Read(const ConnectionPtr& c) {
    const asio::mutable_buffer room(c->request.data() + c->received,
                                    c->request.size() - c->received);
    OrClose(c, [&] {
      c->socket.async_read_some(room, [this, c](ErrorCode error, size_t count) {
        if (c->state != State::kReading) return;
        if (error) return Close(c);
        Take(c, count);
      });
    });
  }

  // `count` bytes more of a request.
  void Take(const ConnectionPtr& c, size_t count) {
    c->progress = Clock::now();
    c->received += count;
    const absl::string_view received(c->request.data(), c->received);
    if (const int64_t head = HttpHeadBytes(received); head > 0) {
      Guard(c, [&] { Find(c, received.substr(0, head)); });
    } else if (c->received == c->request.size()) {
      Refuse(c, 431, "the request is too large\n");
    } else {
      Read(c);
    }
  }

  // Run `step` of a connection, which throws, if at all, std::bad_alloc. This
  // connection is told so, or closed; no other has to know.
  template <typename Step>
  void Guard(const ConnectionPtr& c, Step step) {
    try {
      step();
    } catch (const std::exception&) {
      Send(c, out_of_memory_);
    }
  }
  template <typename Step>
  void OrClose(const ConnectionPtr& c, Step step) {
    try {
      step();
    } catch (const std::exception&) {
      Close(c);
    }
  }

  void Refuse(const ConnectionPtr& c, int status, const char* why) {
    Guard(c, [&] { Send(c, MakeAnswer(TextReply(status, why))); });
  }

  void Find(const ConnectionPtr& c, absl::string_view head) {
    HttpSite::Route route = site_->Find(head);
    if (route.handler == nullptr) return Send(c, MakeAnswer(route.refusal));
    GiveWay(/*guests=*/true, kMaxGuests);
    c->is_guest = true;
    c->state = State::kComputing;
    c->deadline = Clock::time_point::max();  // it is we who are slow
    asio::post(jobs_, [this, client = std::weak_ptr<Connection>(c),
                       handler = route.handler,
                       query = std::move(route.query)] {
      if (client.expired()) return;  // gave way meanwhile
      const AnswerPtr answer = Compute(*handler, query);
      while (!io_.stopped()) {
        try {
          return asio::post(io_, [this, client, answer] {
            if (const ConnectionPtr c = client.lock()) Send(c, answer);
          });
        } catch (const std::exception&) {  // there is no memory for so little
          std::this_thread::sleep_for(kRetry);
        }
      }
    });
  }

  // Called by the other threads.
  AnswerPtr Compute(const HttpHandler& handler, const HttpQuery& query) const {
    try {
      return MakeAnswer(handler(query));
    } catch (const std::exception&) {
      return out_of_memory_;
    }
  }

  void Send(const ConnectionPtr& c, AnswerPtr answer) {
    if (c->state == State::kClosed) return;
    c->state = State::kWriting;
    c->answer = std::move(answer);
    c->sent = 0;
    c->progress = Clock::now();
    c->deadline = c->progress + options_.answer_limit;
    Write(c);
  }

  void Write(const ConnectionPtr& c) {
    const auto piece = [&](absl::string_view bytes, size_t before) {
      bytes.remove_prefix(
          std::min(bytes.size(), c->sent - std::min(c->sent, before)));
      return asio::const_buffer(bytes.data(), bytes.size());
    };
    const Answer& answer = *c->answer;
    const std::array<asio::const_buffer, 2> rest = {
        piece(answer.head, 0), answer.body == nullptr
                                   ? asio::const_buffer()
                                   : piece(*answer.body, answer.head.size())};
    // The server writes as much as the system takes now, so that all clients
    // have their turn.
    OrClose(c, [&] {
      c->socket.async_write_some(rest,
                                 [this, c](ErrorCode error, size_t count) {
                                   if (c->state != State::kWriting) return;
                                   if (error) return Close(c);
                                   Wrote(c, count);
                                 });
    });
  }

  void Wrote(const ConnectionPtr& c, size_t count) {
    c->progress = Clock::now();
    c->sent += count;
    if (c->sent < c->answer->size()) {
      c->deadline = c->progress + options_.answer_limit;
      return Write(c);
    }
    ErrorCode ignored;
    c->socket.shutdown(Tcp::socket::shutdown_send, ignored);
    c->state = State::kLingering;
    c->deadline = c->progress + kLinger;
    Linger(c);
  }

  void Linger(const ConnectionPtr& c) {
    OrClose(c, [&] {
      c->socket.async_read_some(asio::buffer(c->request),
                                [this, c](ErrorCode error, size_t) {
                                  if (c->state != State::kLingering) return;
                                  if (error) return Close(c);
                                  Linger(c);
                                });
    });
  }

  const ServerOptions options_;
  const AnswerPtr out_of_memory_ =
      MakeAnswer(TextReply(500, "out of memory\n"));
  std::unique_ptr<HttpSite> site_;

  asio::io_context io_;    // the connections'
  asio::io_context jobs_;  // the handlers'
  // There is always more to do.
  const WorkGuard io_work_{io_.get_executor()};
  const WorkGuard jobs_work_{jobs_.get_executor()};
  Tcp::acceptor acceptor_{io_};
  bool accepting_ = false;
  Clock::time_point accept_at_;  // not before
  std::list<ConnectionPtr> connections_;
  std::vector<std::thread> threads_;
};

LoopbackServer::LoopbackServer() = default;
LoopbackServer::~LoopbackServer() = default;

absl::StatusOr<std::unique_ptr<LoopbackServer>> LoopbackServer::Start(
    const ServerOptions& options, std::map<std::string, HttpHandler> paths) {
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "port ", options.port, ": expected 0 (any free one) to 65535"));
  }
  try {
    CASTOR_ASSIGN_OR_RETURN(std::string token, MakeUrlToken());
    std::unique_ptr<LoopbackServer> server(new LoopbackServer());
    server->impl_ = std::make_unique<Impl>(options);
    ErrorCode error;
    server->port_ = server->impl_->Bind(options.port, error);
    if (server->port_ == 0 && options.any_port_will_do) {
      server->port_ = server->impl_->Bind(0, error);
    }
    if (server->port_ == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "port ", options.port, " of 127.0.0.1 cannot be had: ",
          error.message(), "; choose another, or 0 for any free one"));
    }
    CASTOR_RETURN_IF_ERROR(server->impl_->Serve(std::make_unique<HttpSite>(
        server->port_, std::move(token), std::move(paths))));
    server->url_ = server->impl_->site().url();
    return server;
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot serve: ", error.what()));
  }
}

}  // namespace castor::cli
