#include "messaging/matching.h"
#include "support/catch.h"

#include <vector>

using namespace anello::messaging;

namespace {

struct Request {
  int source = ANELLO_ANY_SOURCE;
  int tag = ANELLO_ANY_TAG;
  bool claims = false;
  Request* next = nullptr;
  Pattern pattern() const { return {source, tag}; }
};

struct Message {
  int source = 0;
  int tag = 0;
  int name = 0;
  std::uint32_t claim = 0;
};

using Queues = Matching<Request, &Request::next, Message>;

// Keeps a message that no probe matches.
void keep(Queues& queues, const Message& message) {
  queues.keep(message, [](Request&, const Message&) { FAIL("a probe was answered, but none is posted"); });
}

}  // namespace

TEST_CASE("a message goes into the first receive that matches it") {
  Queues queues;
  Request of_one{1, ANELLO_ANY_TAG}, of_tag{ANELLO_ANY_SOURCE, 7}, any;
  for (Request* each : {&of_one, &of_tag, &any}) queues.post_receive(each);
  CHECK(queues.match(2, 7) == &of_tag);
  CHECK(queues.match(2, 7) == &any);
  CHECK(queues.match(2, 7) == nullptr);
  CHECK(queues.match(1, 7) == &of_one);
  CHECK_FALSE(queues.is_awaited());
}

TEST_CASE("receives for any tag do not take the library's own messages") {
  Queues queues;
  Request any, own{ANELLO_ANY_SOURCE, kInternalTags};
  queues.post_receive(&any);
  queues.post_receive(&own);
  CHECK(queues.match(0, kInternalTags) == &own);
}

TEST_CASE("a receive takes the first message that matches it") {
  Queues queues;
  keep(queues, {1, 5, 10});
  keep(queues, {2, 5, 11});
  keep(queues, {1, 5, 12});
  CHECK(queues.find({2, ANELLO_ANY_TAG})->name == 11);
  CHECK(queues.take({1, 5})->name == 10);
  CHECK(queues.take({1, ANELLO_ANY_TAG})->name == 12);
  CHECK_FALSE(queues.take({1, 5}));
  CHECK(queues.messages() == 1);
}

TEST_CASE("only the receive that names its claim takes a claimed message") {
  Queues queues;
  keep(queues, {1, 5, 10});
  keep(queues, {1, 5, 11});
  const std::uint32_t claim = queues.claim({1, 5}).claim;
  CHECK(claim != 0);
  CHECK(queues.find({1, 5})->name == 11);
  CHECK_FALSE(queues.take_claimed(claim + 1));
  CHECK(queues.take_claimed(claim)->name == 10);
  CHECK_FALSE(queues.take_claimed(claim));
}

TEST_CASE("probes see a message in order, up to the one that claims it") {
  Queues queues;
  Request other{2, 5}, looks{1, ANELLO_ANY_TAG}, claims{1, 5, true}, behind{1, 5};
  for (Request* each : {&other, &looks, &claims, &behind}) queues.post_probe(each);
  std::vector<Request*> told;
  queues.keep({1, 5, 10}, [&](Request& probe, const Message& message) {
    told.push_back(&probe);
    CHECK(message.name == 10);
    CHECK((message.claim != 0) == probe.claims);
  });
  CHECK(told == std::vector<Request*>{&looks, &claims});
  CHECK(queues.messages() == 0);
  CHECK(queues.withdraw_any() == &other);
  CHECK(queues.withdraw_any() == &behind);
  CHECK(queues.withdraw_any() == nullptr);
}

TEST_CASE("each_message visits every message, claimed or not") {
  Queues queues;
  keep(queues, {1, 5, 10});
  keep(queues, {1, 6, 11});
  queues.claim({1, 5});
  int names = 0;
  queues.each_message([&](const Message& message) { names += message.name; });
  CHECK(names == 21);
  queues.forget_messages();
  CHECK(queues.messages() == 0);
  CHECK_FALSE(queues.take_claimed(1));
}
