"""The part of the Shopify Admin schema this sandbox serves: written by hand, checked against the vendor's own.

Only what a sync of customers and orders reads or maps. `build(version)` leaves out what a version does not have yet.
"""

from functools import cache
from typing import cast

from graphql import GraphQLObjectType, GraphQLScalarType, GraphQLSchema, build_schema

OLDEST_SERVED = "2026-01"
NEWEST_SERVED = "2026-10"
SERVED_VERSIONS = (OLDEST_SERVED, "2026-04", "2026-07", NEWEST_SERVED)

# (type, field) -> first version that has it.
_SINCE = {
    ("CustomerPhoneNumber", "smsMarketingConsent"): "2026-10",
    ("CustomerPhoneNumber", "whatsAppMarketingConsent"): "2026-07",
}

# ISO 3166 codes and the vendor's own AC, AN, IC-like territories; ISO 4217 codes and the vendor's XXX, USDC.
_COUNTRIES = """
AC AD AE AF AG AI AL AM AN AO AR AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD
CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FO FR GA GB GD GE GF GG
GH GI GL GM GN GP GQ GR GS GT GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR
KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MK ML MM MN MO MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG
NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PS PT PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO
SR SS ST SV SX SY SZ TA TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VN VU WF WS XK YE
YT ZA ZM ZW ZZ"""

_CURRENCIES = """
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BYR BZD CAD CDF CHF CLP
CNY COP CRC CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG HUF IDR ILS
INR IQD IRR ISK JEP JMD JOD JPY KES KGS KHR KID KMF KRW KWD KYD KZT LAK LBP LKR LRD LSL LTL LVL LYD MAD MDL MGA MKD MMK
MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD
SCR SDG SEK SGD SHP SLL SOS SRD SSP STD STN SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD USDC UYU UZS VED VEF
VES VND VUV WST XAF XCD XOF XPF XXX YER ZAR ZMW"""

_SDL = """
schema { query: QueryRoot }

scalar DateTime
scalar Decimal
scalar UnsignedInt64

interface Node { id: ID! }

type QueryRoot {
  currentAppInstallation: AppInstallation!
  customer(id: ID!): Customer
  customers(after: String, before: String, first: Int, last: Int, query: String, reverse: Boolean = false,
            sortKey: CustomerSortKeys = ID): CustomerConnection!
  customersCount(limit: Int = 10000, query: String): Count
  nodes(ids: [ID!]!): [Node]!
  order(id: ID!): Order
  orders(after: String, before: String, first: Int, last: Int, query: String, reverse: Boolean = false,
         savedSearchId: ID, sortKey: OrderSortKeys = PROCESSED_AT): OrderConnection!
  ordersCount(limit: Int = 10000, query: String, savedSearchId: ID): Count
  publicApiVersions: [ApiVersion!]!
  shop: Shop!
}

type Customer implements Node {
  amountSpent: MoneyV2!
  createdAt: DateTime!
  dataSaleOptOut: Boolean!
  defaultAddress: MailingAddress
  defaultEmailAddress: CustomerEmailAddress
  defaultPhoneNumber: CustomerPhoneNumber
  displayName: String!
  firstName: String
  id: ID!
  lastName: String
  lastOrder: Order
  legacyResourceId: UnsignedInt64!
  locale: String!
  note: String
  numberOfOrders: UnsignedInt64!
  state: CustomerState!
  tags: [String!]!
  taxExempt: Boolean!
  updatedAt: DateTime!
  verifiedEmail: Boolean!
}

type CustomerEmailAddress {
  emailAddress: String!
  marketingOptInLevel: CustomerMarketingOptInLevel
  marketingState: CustomerEmailAddressMarketingState!
  marketingUpdatedAt: DateTime
  sourceLocation: Location
  validFormat: Boolean!
}

type CustomerPhoneNumber {
  marketingCollectedFrom: CustomerConsentCollectedFrom
  marketingOptInLevel: CustomerMarketingOptInLevel
  marketingState: CustomerSmsMarketingState!
  marketingUpdatedAt: DateTime
  phoneNumber: String!
  smsMarketingConsent: CustomerSmsMarketingConsent!
  sourceLocation: Location
  whatsAppMarketingConsent: CustomerWhatsAppMarketingConsent!
}

type CustomerSmsMarketingConsent {
  collectedFrom: CustomerConsentCollectedFrom
  optInLevel: CustomerMarketingOptInLevel
  sourceLocation: Location
  state: CustomerMarketingConsentState!
  updatedAt: DateTime
}

type CustomerWhatsAppMarketingConsent {
  collectedFrom: CustomerConsentCollectedFrom
  optInLevel: CustomerMarketingOptInLevel
  sourceLocation: Location
  state: CustomerMarketingConsentState!
  updatedAt: DateTime
}

type MailingAddress implements Node {
  address1: String
  address2: String
  city: String
  company: String
  country: String
  countryCodeV2: CountryCode
  firstName: String
  id: ID!
  lastName: String
  name: String
  phone: String
  province: String
  provinceCode: String
  zip: String
}

type Order implements Node {
  cancelReason: OrderCancelReason
  cancelledAt: DateTime
  closed: Boolean!
  closedAt: DateTime
  confirmed: Boolean!
  createdAt: DateTime!
  currencyCode: CurrencyCode!
  currentTotalPriceSet: MoneyBag!
  customer: Customer
  customerAcceptsMarketing: Boolean!
  customerLocale: String
  discountCodes: [String!]!
  displayFinancialStatus: OrderDisplayFinancialStatus
  displayFulfillmentStatus: OrderDisplayFulfillmentStatus!
  email: String
  id: ID!
  legacyResourceId: UnsignedInt64!
  lineItems(after: String, before: String, first: Int, last: Int, reverse: Boolean = false): LineItemConnection!
  name: String!
  note: String
  number: Int!
  phone: String
  presentmentCurrencyCode: CurrencyCode!
  processedAt: DateTime!
  refunds(first: Int): [Refund!]!
  shippingAddress: MailingAddress
  sourceName: String
  subtotalPriceSet: MoneyBag
  tags: [String!]!
  test: Boolean!
  totalPriceSet: MoneyBag!
  totalRefundedSet: MoneyBag!
  updatedAt: DateTime!
}

type LineItem implements Node {
  currentQuantity: Int!
  discountedUnitPriceSet: MoneyBag!
  id: ID!
  originalUnitPriceSet: MoneyBag!
  product: Product
  quantity: Int!
  sku: String
  title: String!
  variantTitle: String
  vendor: String
}

type Refund implements Node { createdAt: DateTime id: ID! totalRefundedSet: MoneyBag! updatedAt: DateTime! }
type Product implements Node { id: ID! }
type Location implements Node { id: ID! name: String! }
type MoneyBag { presentmentMoney: MoneyV2! shopMoney: MoneyV2! }
type MoneyV2 { amount: Decimal! currencyCode: CurrencyCode! }

type CustomerConnection { edges: [CustomerEdge!]! nodes: [Customer!]! pageInfo: PageInfo! }
type CustomerEdge { cursor: String! node: Customer! }
type OrderConnection { edges: [OrderEdge!]! nodes: [Order!]! pageInfo: PageInfo! }
type OrderEdge { cursor: String! node: Order! }
type LineItemConnection { edges: [LineItemEdge!]! nodes: [LineItem!]! pageInfo: PageInfo! }
type LineItemEdge { cursor: String! node: LineItem! }
type PageInfo { endCursor: String hasNextPage: Boolean! hasPreviousPage: Boolean! startCursor: String }
type Count { count: Int! precision: CountPrecision! }

type Shop implements Node {
  currencyCode: CurrencyCode!
  ianaTimezone: String!
  id: ID!
  myshopifyDomain: String!
  name: String!
  plan: ShopPlan!
  setupRequired: Boolean!
  timezoneOffsetMinutes: Int!
}

type ShopPlan { partnerDevelopment: Boolean! publicDisplayName: String! shopifyPlus: Boolean! }
type AppInstallation implements Node { accessScopes: [AccessScope!]! app: App! id: ID! }
type App implements Node { apiKey: String! id: ID! title: String! }
type AccessScope { handle: String! }
type ApiVersion { displayName: String! handle: String! supported: Boolean! }

enum CountPrecision { AT_LEAST EXACT }
enum CustomerConsentCollectedFrom { OTHER SHOPIFY }
enum CustomerEmailAddressMarketingState { INVALID NOT_SUBSCRIBED PENDING SUBSCRIBED UNSUBSCRIBED }
enum CustomerMarketingConsentState { NEVER_SUBSCRIBED PENDING REDACTED SUBSCRIBED UNSUBSCRIBED }
enum CustomerMarketingOptInLevel { CONFIRMED_OPT_IN SINGLE_OPT_IN UNKNOWN }
enum CustomerSmsMarketingState { NOT_SUBSCRIBED PENDING REDACTED SUBSCRIBED UNSUBSCRIBED }
enum CustomerSortKeys { CREATED_AT ID LOCATION NAME RELEVANCE UPDATED_AT }
enum CustomerState { DECLINED DISABLED ENABLED INVITED }
enum OrderCancelReason { CUSTOMER DECLINED FRAUD INVENTORY OTHER STAFF }
enum OrderDisplayFinancialStatus {
  AUTHORIZED EXPIRED PAID PARTIALLY_PAID PARTIALLY_REFUNDED PENDING REFUNDED VOIDED
}
enum OrderDisplayFulfillmentStatus {
  FULFILLED FULFILLMENT_NOT_REQUIRED IN_PROGRESS ON_HOLD OPEN PARTIALLY_FULFILLED PENDING_FULFILLMENT
  REQUEST_DECLINED RESTOCKED SCHEDULED UNFULFILLED
}
enum OrderSortKeys {
  CREATED_AT CURRENT_TOTAL_PRICE CUSTOMER_NAME DESTINATION FINANCIAL_STATUS FULFILLMENT_STATUS ID ORDER_NUMBER
  PO_NUMBER PROCESSED_AT RELEVANCE TOTAL_ITEMS_QUANTITY TOTAL_PRICE UPDATED_AT
}
"""


def sdl() -> str:
    """The whole schema of the newest version, as text."""
    return f"{_SDL}\nenum CountryCode {{{_COUNTRIES}\n}}\nenum CurrencyCode {{{_CURRENCIES}\n}}\n"


@cache
def build(version: str) -> GraphQLSchema:
    """The schema as `version` ("2026-07") serves it; "unstable" is the newest."""
    schema = build_schema(sdl())
    for (type_name, field), since in _SINCE.items():
        if version < since:
            del cast(GraphQLObjectType, schema.type_map[type_name]).fields[field]
    # Recorded on the wire: 64-bit numbers travel as strings ("18").
    whole_number = cast(GraphQLScalarType, schema.type_map["UnsignedInt64"])
    whole_number.serialize = str  # type: ignore[method-assign,assignment]
    return schema
