/* How conda's clients order the candidates of a name; libsolv.py compiles it with libsolv's sources.
 *
 * libsolv leaves that to prune_to_best_version(). The libsolv that conda, mamba and micromamba ship is conda-forge's,
 * and orders them otherwise, so the function below takes the place of libsolv's own, which is compiled under the name
 * prune_to_best_version_upstream.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "evr.h"
#include "policy.h"
#include "pool.h"
#include "queue.h"
#include "repo.h"
#include "solvable.h"
#include "util.h"

/* The package that a dependency with a version or build names, or 0. */
static Id name_of(Pool *pool, Id dep) { return ISRELDEP(dep) ? GETRELDEP(pool, dep)->name : 0; }

/* What every client compares first: fewer tracked features, newer version, channel, higher build number.
 * Positive: a is better. */
static int compare_records(Pool *pool, Solvable *a, Solvable *b)
{
  int tracked_a = solvable_lookup_count(a, SOLVABLE_TRACK_FEATURES);
  int tracked_b = solvable_lookup_count(b, SOLVABLE_TRACK_FEATURES);
  int r = tracked_b - tracked_a;
  if (!r)
    r = pool_evrcmp(pool, a->evr, b->evr, EVRCMP_COMPARE);
  if (!r)
    r = a->repo->subpriority - b->repo->subpriority;
  if (!r)
    {
      const char *number_a = solvable_lookup_str(a, SOLVABLE_BUILDVERSION);
      const char *number_b = solvable_lookup_str(b, SOLVABLE_BUILDVERSION);
      r = pool_evrcmp_str(pool, number_a ? number_a : "", number_b ? number_b : "", EVRCMP_COMPARE);
    }
  return r;
}

static int contains(Queue *list, Id id)
{
  for (int i = 0; i < list->count; i++)
    if (list->elements[i] == id)
      return 1;
  return 0;
}

/* Whether each of the first record's dependencies on a name is also one of the second's. */
static int same_requirements(Pool *pool, Queue *first, Queue *second, Id name)
{
  for (int i = 0; i < first->count; i++)
    if (name_of(pool, first->elements[i]) == name && !contains(second, first->elements[i]))
      return 0;
  return 1;
}

/* The newest version that all dependencies on a name allow together, or 0.
 * all_tracked: whether each record that they allow has a tracked feature. */
static Id newest_allowed(Pool *pool, Queue *requires, Id name, int *all_tracked)
{
  Queue allowed;
  Id best = 0;
  int first = 1;
  queue_init(&allowed);
  for (int i = 0; i < requires->count; i++)
    {
      Id p, pp, dep = requires->elements[i];
      if (name_of(pool, dep) != name)
        continue;
      Queue these;
      queue_init(&these);
      FOR_PROVIDES(p, pp, dep)
        if (first || contains(&allowed, p))
          queue_push(&these, p);
      queue_free(&allowed);
      allowed = these;
      first = 0;
    }
  *all_tracked = 1;
  for (int i = 0; i < allowed.count; i++)
    {
      Solvable *s = pool_id2solvable(pool, allowed.elements[i]);
      if (!solvable_lookup_count(s, SOLVABLE_TRACK_FEATURES))
        *all_tracked = 0;
      if (!best || pool_evrcmp(pool, best, s->evr, EVRCMP_COMPARE) < 0)
        best = s->evr;
    }
  queue_free(&allowed);
  return best;
}

/* Orders records that compare_records() finds alike. Each name on which their dependencies differ has a vote for the
 * record that allows the newer version of it, and a hundred votes against the one that allows tracked records only.
 * Without a majority, the record built later goes first. A name with two dependencies votes twice, as in conda-forge's.
 */
static int compare_by_dependencies(const void *ap, const void *bp, void *data)
{
  Pool *pool = data;
  Solvable *a = pool_id2solvable(pool, *(const Id *)ap), *b = pool_id2solvable(pool, *(const Id *)bp);
  Queue of_a, of_b;
  int r = 0;
  queue_init(&of_a);
  queue_init(&of_b);
  solvable_lookup_deparray(a, SOLVABLE_REQUIRES, &of_a, -1);
  solvable_lookup_deparray(b, SOLVABLE_REQUIRES, &of_b, -1);
  for (int i = 0; i < of_a.count; i++)
    {
      Id name = name_of(pool, of_a.elements[i]);
      int tracked_a, tracked_b;
      if (!name || same_requirements(pool, &of_a, &of_b, name))
        continue;
      Id newest_a = newest_allowed(pool, &of_a, name, &tracked_a);
      Id newest_b = newest_allowed(pool, &of_b, name, &tracked_b);
      if (newest_a && newest_b)
        r += (tracked_a - tracked_b) * 100 + pool_evrcmp(pool, newest_b, newest_a, EVRCMP_COMPARE);
    }
  queue_free(&of_a);
  queue_free(&of_b);
  if (!r)
    r = solvable_lookup_num(b, SOLVABLE_BUILDTIME, 0) > solvable_lookup_num(a, SOLVABLE_BUILDTIME, 0) ? 1 : -1;
  return r;
}

static int compare_ids(const void *ap, const void *bp, void *data)
{
  (void)data;
  return *(const Id *)ap - *(const Id *)bp;
}

/* conda-forge's rule: leaves the candidates of one name that compare_records() finds best, in the order of their
 * dependencies. libsolv's own leaves one, that with the greatest build string. */
void prune_to_best_version(Pool *pool, Queue *list)
{
  int kept = 0;
  if (list->count < 2)
    return;
  solv_sort(list->elements, list->count, sizeof(Id), compare_ids, pool);
  Solvable *best = pool_id2solvable(pool, list->elements[0]);
  for (int i = 1; i < list->count; i++)
    if (compare_records(pool, pool_id2solvable(pool, list->elements[i]), best) > 0)
      best = pool_id2solvable(pool, list->elements[i]);
  for (int i = 0; i < list->count; i++)
    if (compare_records(pool, pool_id2solvable(pool, list->elements[i]), best) == 0)
      list->elements[kept++] = list->elements[i];
  queue_truncate(list, kept);
  if (kept > 1)
    solv_sort(list->elements, kept, sizeof(Id), compare_by_dependencies, pool);
}
