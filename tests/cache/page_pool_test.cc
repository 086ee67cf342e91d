#include "services/cache/page_pool.h"

#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "services/base/check.h"

namespace folio::cache {
namespace {

PageReservation MustReserve(PagePool& pool, uint32_t pages) {
  std::optional<PageReservation> reservation = pool.Reserve(PageCount(pages));
  FOLIO_CHECK(reservation.has_value());
  return *std::move(reservation);
}

TEST(PagePool, GivesOutPromisedPagesOnly) {
  PagePool pool(PageCount(3));
  PageReservation two = MustReserve(pool, 2);
  EXPECT_EQ(pool.reserved(), PageCount(2));
  EXPECT_EQ(pool.free(), PageCount(3));
  EXPECT_FALSE(pool.Reserve(PageCount(2)).has_value());
  EXPECT_TRUE(pool.Reserve(PageCount(1)).has_value());  // dropped at once

  const PageRef a = pool.Take(two);
  const PageRef b = pool.Take(two);
  EXPECT_NE(a.page, b.page);
  EXPECT_EQ(pool.reserved(), PageCount(0));
  EXPECT_EQ(pool.held(), PageCount(2));
  EXPECT_DEATH(pool.Take(two), "check failed");
  EXPECT_TRUE(pool.CheckInvariants().ok());
  pool.Release({a});
  pool.Release({b});
  EXPECT_EQ(pool.free(), PageCount(3));
}

TEST(PagePool, ReservationsReturnByThemselves) {
  PagePool pool(PageCount(4));
  {
    PageReservation first = MustReserve(pool, 3);
    PageReservation moved = std::move(first);
    EXPECT_EQ(pool.reserved(), PageCount(3));
    moved.ResizeTo(PageCount(1));
    EXPECT_EQ(pool.reserved(), PageCount(1));
    moved.ResizeTo(PageCount(4));
    EXPECT_EQ(pool.reserved(), PageCount(4));
    EXPECT_DEATH(moved.ResizeTo(PageCount(5)), "check failed");
    PageReservation other;
    other = std::move(moved);
    EXPECT_EQ(pool.reserved(), PageCount(4));
  }
  EXPECT_EQ(pool.reserved(), PageCount(0));
}

TEST(PagePool, GenerationsGrowEachTimeAPageIsGivenOut) {
  PagePool pool(PageCount(1));
  std::set<uint32_t> generations;
  PageRef last;
  for (int i = 0; i < 5; ++i) {
    PageReservation one = MustReserve(pool, 1);
    const PageRef page = pool.Take(one);
    EXPECT_TRUE(generations.insert(page.generation.value()).second);
    EXPECT_TRUE(i == 0 || page.generation > last.generation);
    EXPECT_FALSE(i > 0 && pool.IsHeld(last));
    EXPECT_TRUE(pool.IsHeld(page));
    pool.Release({page});
    EXPECT_FALSE(pool.IsHeld(page));
    last = page;
  }
  EXPECT_FALSE(pool.IsHeld({PageId(7), Generation(1)}));
}

TEST(PagePool, ReusesTheWarmestPage) {
  PagePool pool(PageCount(8));
  PageReservation all = MustReserve(pool, 8);
  const PageRef first = pool.Take(all);
  EXPECT_EQ(first.page, PageId(0));
  EXPECT_EQ(pool.Take(all).page, PageId(1));
  pool.Release({first});
  EXPECT_EQ(pool.Take(all).page, first.page);
}

TEST(PagePool, QuarantineIsByOwner) {
  PagePool pool(PageCount(4));
  PageReservation all = MustReserve(pool, 4);
  const PageRef a = pool.Take(all);
  const PageRef b = pool.Take(all);
  const PageRef c = pool.Take(all);
  pool.Quarantine(a, WorkerId(1));
  pool.Quarantine(b, WorkerId(2));
  pool.Quarantine(c, WorkerId(1));
  EXPECT_EQ(pool.quarantined(), PageCount(3));
  EXPECT_EQ(pool.held(), PageCount(0));
  EXPECT_EQ(pool.free(), PageCount(1));
  EXPECT_FALSE(pool.IsHeld(a));
  EXPECT_TRUE(pool.CheckInvariants().ok());
  EXPECT_EQ(pool.EndQuarantine(WorkerId(3)), PageCount(0));
  EXPECT_EQ(pool.EndQuarantine(WorkerId(1)), PageCount(2));
  EXPECT_EQ(pool.EndQuarantine(WorkerId(1)), PageCount(0));
  EXPECT_EQ(pool.quarantined(), PageCount(1));
  EXPECT_EQ(pool.free(), PageCount(3));
  EXPECT_TRUE(pool.CheckInvariants().ok());
}

TEST(PagePool, StaleReferencesAreBugsOfOurs) {
  PagePool pool(PageCount(2));
  PageReservation two = MustReserve(pool, 2);
  const PageRef page = pool.Take(two);
  pool.Release({page});
  EXPECT_DEATH(pool.Release({page}), "check failed");
  EXPECT_DEATH(pool.Quarantine(page, WorkerId(1)), "check failed");
  EXPECT_DEATH(pool.Release({PageRef{PageId(9), Generation(1)}}), "check failed");
}

}  // namespace
}  // namespace folio::cache
