"""Streams to try the engines on: seeded generators, and real data.

Every function returns a `Dataset`: a schema and a recipe for its rows, sorted by the event time column
``ts``. Nothing is generated before the rows are asked for, with ``batches(size)``, ``to_arrow()``,
``to_pandas()``, ``to_parquet(path)`` or ``to_spark(spark)``; ``repeated(size)`` never ends, for streams that are watched.

====================  =======================================  ===============================================
function              columns                                  what it is
====================  =======================================  ===============================================
``tweets``            ts, user, text                           words by Zipf's law, hashtags, bursts
``joins``             ts, x, y (left); ts, a, b, c, d (right)  the two inputs of the band join of ScaleJoin
``trades``            ts, id, price, average                   a stock market, up to 8,000 trades a second
``linear_road``       ts and the 15 integers of the benchmark  cars on toll roads, a report each 30 seconds
``flights``           ts and the 19 columns of the file        336,776 real departures from New York in 2013
``gs``                ts, keys, values                         lists of records to read or write, Zipf's law
``sl``                ts, kind, source, target, source_asset,  deposits and transfers, some of them overdrafts
                      target_asset, amount, quantity
``ob``                ts, kind, items, prices, quantities      bids, new prices, more items, in lists
``tp``                ts, vehicle, segment, speed              speeds of vehicles on 100 road segments
``position_reports``  ts, vehicle, segment, speed              the same from Linear Road: generated or from a file
``clicks``            ts, user, session, item, kind            sessions in an online shop, some with a cart
``store_sales``       ts, ticket, item                         shop tickets, from several tills at once
``calls``             ts, caller, callee, area, caller_lat,    telephone calls, some from places that the caller
                      caller_lon, callee_lat, callee_lon       cannot have reached
``item_sales``        ts, item, amount                         sales of items whose categories grow or decline
``item_categories``   ts, item, category                       the categories of these items
``eventwindow``       ts, x, stream (left); ts (right)         values of several streams, and barriers
``pageviews``         ts, page, user (left);                   views of pages, two of them hot, and updates of the
                      ts, page, info (right)                   pages
``frauds``            ts, value (both sides)                   transactions, and rules that say which are fraudulent
``keycounts``         ts, key, kind                            increments of counters, and resets
``plugs``             ts, house, household, plug, load         smart plugs, in the form of the DEBS challenge of 2014
``connections``       ts, protocol, service, flag, duration,   network connections, few of them attacks
                      src_bytes, dst_bytes, attack
====================  =======================================  ===============================================

Shared by the generators: ``dataset`` (what they return), ``randomness`` (random streams, Zipf's law),
``arrivals`` (when rows arrive), ``events`` and ``keys`` (for transactions: blocks of events, and the records they touch),
``interleaved`` (sessions and tickets that overlap in time), ``occasional`` (one event after a fixed number of events of
another kind), ``words`` (pronounceable made-up words), ``parameters`` (checks of arguments).

What holds for all of them: the rows depend on the parameters alone, never on the batch size; a smaller `n`
gives the beginning of the same stream; memory stays bounded by the batch size; no engine is imported. The
rows of one seed are the same wherever NumPy draws the same random numbers: within one release of NumPy, and
mostly across releases.

Each module also has ``generate(n, seed, ...)``, the bare iterator of Arrow record batches. A module and its
function share a name, so import it as ``from headrace_datasets.tweets import generate``.
"""

from headrace_datasets.calls import calls
from headrace_datasets.clicks import clicks
from headrace_datasets.connections import connections
from headrace_datasets.dataset import Dataset
from headrace_datasets.eventwindow import eventwindow
from headrace_datasets.flights import flights
from headrace_datasets.frauds import frauds
from headrace_datasets.gs import gs
from headrace_datasets.item_categories import item_categories
from headrace_datasets.item_sales import item_sales
from headrace_datasets.joins import joins
from headrace_datasets.keycounts import keycounts
from headrace_datasets.linear_road import linear_road
from headrace_datasets.ob import ob
from headrace_datasets.pageviews import pageviews
from headrace_datasets.plugs import plugs
from headrace_datasets.position_reports import position_reports
from headrace_datasets.sl import sl
from headrace_datasets.store_sales import store_sales
from headrace_datasets.tp import tp
from headrace_datasets.trades import trades
from headrace_datasets.tweets import tweets

__all__ = [
    "Dataset",
    "calls",
    "clicks",
    "connections",
    "eventwindow",
    "flights",
    "frauds",
    "gs",
    "item_categories",
    "item_sales",
    "joins",
    "keycounts",
    "linear_road",
    "ob",
    "pageviews",
    "plugs",
    "position_reports",
    "sl",
    "store_sales",
    "tp",
    "trades",
    "tweets",
]


def __getattr__(name: str) -> object:
    raise AttributeError(f"headrace_datasets has no {name!r}; the datasets are {', '.join(__all__[1:])}", name=name)
